/**
 * Claim script: the part of the commit script that claims waiting tasks, and stores hints for the nodes
 * that lease other partitions.
 */

export const CLAIM = `
local taken = {}

-- Starts the tasks of a lane, given by their ids.
local function start(base, tenant, ids)
  if #ids == 0 then return end
  local tasks = {}
  for at, id in ipairs(ids) do tasks[at] = tenant .. '\\n' .. id end
  fetch(base, tasks)
  local heads = call('HMGET', base .. ':h', unpack(tasks))
  local bodies = call('HMGET', base .. ':b', unpack(tasks))
  for at, task in ipairs(tasks) do
    local state = find(base, task)
    unwait(base, tenant, ids[at], state)
    state[1], state[3], state[5], state[6], state[7] =
      IN_FLIGHT, state[3] + 1, state[5] + 1, nodeId, now
    tally(base, tenant, state[17], PENDING, -1)
    tally(base, tenant, state[17], IN_FLIGHT, 1)
    hold(base, nodeId, task, state)
    reply[#reply + 1] = save(base, task, state)
    reply[#reply + 1] = heads[at]
    reply[#reply + 1] = bodies[at]
  end
  write()
end

-- place, number of the claim, tenant, destination, lane, limit, aheadMs, aheadLimit, version. The
-- parts of one claim share its limits. A version of false: nothing is claimed.
local function claim(item)
  local base, number, tenant = KEYS[item[1]], item[2], item[3]
  local limit, aheadLimit = item[6], math.min(item[6], item[8])
  local key = base .. ':d:' .. laneOf(tenant, item[4], item[5])
  local other = item[9] and refusing(base, tenant, item[4], item[9]) or 0
  local before, ids = taken[number] or 0, {}
  if item[9] and other == 0 and before < limit then
    local due = call('ZRANGEBYSCORE', key, '-inf', now + item[7], 'WITHSCORES', 'LIMIT', 0, limit - before)
    for at = 1, #due, 2 do
      if tonumber(due[at + 1]) > now and before + #ids >= aheadLimit then break end
      ids[#ids + 1] = string.sub(due[at], 13)
    end
    start(base, tenant, ids)
  end
  taken[number] = before + #ids
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  return { #ids, first[2] and tonumber(first[2]) or false, other }
end

-- The latest hint of a lane replaces the earlier ones, with the earliest due time.
local function hint(item)
  local base = KEYS[item[1]]
  local lane = laneOf(item[2], item[3], item[4])
  local known = tonumber(call('HGET', base .. ':hd', lane) or math.huge)
  call('HSET', base .. ':hd', lane, math.min(known, item[5]))
  call('ZADD', base .. ':hz', call('HINCRBY', base .. ':m', 'hint', 1), lane)
end
`;
