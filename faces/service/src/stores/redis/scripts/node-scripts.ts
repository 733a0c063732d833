/**
 * Node scripts: leases and shares, judged by the clock of the server. Their key is that of all data
 * without a partition. There, `:nodes` holds `[leaseUntil, takesAll, isLeaving, boot, round]` of each
 * node.
 * `:sh:DESTINATION` holds what each node has of a destination, and `r:calls` and `r:retries`: the next
 * token of each rate that nobody has reserved.
 */
import { LATE_REPORT, RESERVED_MS, RETIRED_MS, RETIRED_ROUND } from "../../../model/node-report.ts";
import { script } from "./script.ts";

/** Shares of a destination that no node reports are forgotten after a day. */
const SHARES_MS = 86_400_000;

const NODE_FUNCTIONS = `
local control = KEYS[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function read(key, field)
  local stored = redis.call('HGET', key, field)
  return stored and cmsgpack.unpack(stored)
end
`;

/** The current instant of the server, in milliseconds. */
export const CLOCK = script(NODE_FUNCTIONS, "return now");

/** The layout of the keys, which is now that of ARGV[1] if there was no store. Stores without it had the first. */
export const LAYOUT_OF_STORE = script(
  NODE_FUNCTIONS,
  `
local key = control .. ':m'
if redis.call('EXISTS', key) == 0 then redis.call('HSET', key, 'layout', ARGV[1]) end
return tonumber(redis.call('HGET', key, 'layout') or '1')
`,
);

/** Which of the nodes have a lease: 1 or 0 for each. */
export const HAVE_LEASES = script(
  NODE_FUNCTIONS,
  `
local found = {}
for at, id in ipairs(ARGV) do
  local node = read(control .. ':nodes', id)
  found[at] = node and node[1] > now and 1 or 0
end
return found
`,
);

/** Ends the lease of a node for good: every report that arrives later is too old. */
export const RETIRE = script(
  NODE_FUNCTIONS,
  `
local before = read(control .. ':nodes', ARGV[1])
local boot = before and before[4] or redis.call('HINCRBY', control .. ':m', 'boot', 1)
redis.call('HSET', control .. ':nodes', ARGV[1], cmsgpack.pack({ now, 0, 1, boot, ${RETIRED_ROUND} }))
return 1
`,
);

/** Removes nodes whose lease has ended, retired ones later than others. Returns how many. */
export const REMOVE_LAPSED = script(
  NODE_FUNCTIONS,
  `
local removed = 0
for _, id in ipairs(ARGV) do
  local node = read(control .. ':nodes', id)
  local keptMs = node and node[5] == ${RETIRED_ROUND} and ${RETIRED_MS} or 0
  if node and node[1] + keptMs <= now then
    removed = removed + redis.call('HDEL', control .. ':nodes', id)
  end
end
return removed
`,
);

const SHARE_FUNCTIONS = `
-- An entry of a node counts only until the node is removed: a node that returns has another boot.
local function othersOf(key, nodeId, nodes)
  local others = {}
  local entries = redis.call('HGETALL', key)
  for at = 1, #entries, 2 do
    local id = string.match(entries[at], '^n:(.*)$')
    if id and id ~= nodeId then
      local entry, node = cmsgpack.unpack(entries[at + 1]), nodes[id]
      if not node or node[4] ~= entry[9] then
        redis.call('HDEL', key, entries[at])
      elseif node[1] > now then
        others[#others + 1] = entry
      end
    end
  end
  return others
end

-- use: limit, wanted, used. at: the position of the granted slots; the used ones follow it.
local function grant(use, others, at)
  if not use then return 0 end
  local taken = 0
  for _, other in ipairs(others) do taken = taken + math.max(other[at], other[at + 1]) end
  return math.max(0, math.min(use[2], use[1] - taken))
end

-- use: perSecond, burst, wanted. The same as reserveRate in model/node-report.ts.
local function reserve(key, field, use)
  if not use then return false end
  local interval = 1000 / use[1]
  local nextAt = tonumber(redis.call('HGET', key, field) or 0)
  local startAt = math.max(nextAt, now - (use[2] - 1) * interval)
  local room = math.floor((now + ${RESERVED_MS} - startAt) / interval) + 1
  local count = math.min(use[3], room)
  if count <= 0 then return false end
  redis.call('HSET', key, field, string.format('%.17g', startAt + count * interval))
  return { startAt, count, math.ceil(2 * use[2] * interval) }
end

local function isFree(use)
  return not use or use[2] + use[3] == 0
end

local function sumOf(others)
  local sum = { 0, 0, 0, 0, 0 }
  for _, other in ipairs(others) do
    for at = 1, 3 do sum[at] = sum[at] + other[4 + at] end
    if other[8] > 0 then sum[4] = sum[4] + 1 end
    sum[5] = sum[5] + other[8]
  end
  return sum
end

-- The stored row, unless the node knows it. What the node knows of a row that is gone may be a pause.
local function newRow(id, known)
  local stored = redis.call('HGET', control .. ':r', id)
  if stored then return cmsgpack.unpack(stored)[1] == known and '' or stored end
  local removed = tonumber(redis.call('HGET', control .. ':m', 'removed') or 0)
  if known == 0 or known >= removed then return '' end
  local tenant, name = string.match(id, '^([^\\n]*)\\n(.*)$')
  return cmsgpack.pack({ removed, 'CLOSED', false, tenant, name, false, 0, 0, 0 })
end

-- report: destination, version, calls, failures, slowCalls, demand, slots, retrySlots, rate, retryRate.
local function share(report, nodeId, nodes, isTaken)
  local key = control .. ':sh:' .. report[1]
  local others = othersOf(key, nodeId, nodes)
  local slots = isTaken and 0 or grant(report[7], others, 1)
  local retrySlots = isTaken and 0 or grant(report[8], others, 3)
  if report[7] then retrySlots = math.min(retrySlots, slots) end
  if report[6] == 0 and isFree(report[7]) and isFree(report[8]) then
    redis.call('HDEL', key, 'n:' .. nodeId)
  else
    local entry = { slots, report[7] and report[7][3] or 0, retrySlots, report[8] and report[8][3] or 0,
      report[3], report[4], report[5], report[6], nodes[nodeId][4] }
    redis.call('HSET', key, 'n:' .. nodeId, cmsgpack.pack(entry))
  end
  local rate = not isTaken and reserve(key, 'r:calls', report[9])
  local retryRate = not isTaken and reserve(key, 'r:retries', report[10])
  local keptMs = math.max(${SHARES_MS}, rate and rate[3] or 0, retryRate and retryRate[3] or 0)
  redis.call('PEXPIRE', key, keptMs)
  rows[#rows + 1] = newRow(report[1], report[2])
  return { slots, retrySlots, rate, retryRate, sumOf(others) }
end
`;

/**
 * Renews a lease: `[nodeId, leaseMs, isLeaving, takesAll, reports, round]`. Returns the packed result `[now,
 * wasLapsed, takesAll, hasChanged, nodes, shares]`, and after it the row of each reported destination,
 * or an empty text if the node knows it. Then follow the versions that may not have reached all
 * partitions for a second.
 */
export const RENEW = script(
  NODE_FUNCTIONS,
  "local rows = { '' }",
  SHARE_FUNCTIONS,
  `
local report = cmsgpack.unpack(ARGV[1])
local nodeId = report[1]
local nodes, live, isAlone, isTaken = {}, {}, true, false
local entries = redis.call('HGETALL', control .. ':nodes')
for at = 1, #entries, 2 do
  local id, node = entries[at], cmsgpack.unpack(entries[at + 1])
  nodes[id] = node
  if id ~= nodeId and node[1] > now then
    isAlone = false
    if node[2] == 1 then isTaken = true end
    if node[3] == 0 then live[#live + 1] = id end
  end
end
local before = nodes[nodeId]
if before and before[5] and report[6] < before[5] then return redis.error_reply('ERR ${LATE_REPORT}') end
local takesAll = report[4] == 1 and (isAlone or (before and before[1] > now and before[2] == 1)) and 1 or 0
local boot = before and before[4] or redis.call('HINCRBY', control .. ':m', 'boot', 1)
nodes[nodeId] = { now + report[2], takesAll, report[3], boot, report[6] }
redis.call('HSET', control .. ':nodes', nodeId, cmsgpack.pack(nodes[nodeId]))
if report[3] == 0 then live[#live + 1] = nodeId end
local shares = {}
for at, one in ipairs(report[5]) do shares[at] = share(one, nodeId, nodes, isTaken) end
local wasLapsed = (not before or before[1] <= now) and 1 or 0
local hasChanged = (not before or before[2] ~= takesAll or before[3] ~= report[3]) and 1 or 0
rows[1] = cmsgpack.pack({ now, wasLapsed, takesAll, hasChanged, live, shares })
local late = redis.call('ZRANGEBYSCORE', control .. ':ru', '-inf', now - 1000, 'LIMIT', 0, 64)
for _, version in ipairs(late) do rows[#rows + 1] = version end
return rows
`,
);
