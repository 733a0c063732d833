/**
 * Commit script: carries out the items of a batch in one partition, or in several ones of the same
 * server. Its argument is `[now, nodeId, versions, creates, settles, cancels, retryNows, claims,
 * hints]`. Each item begins with the number of its partition among the keys. The reply is the packed
 * results, and then the state, head and body of each claimed task.
 */
import { CLAIM } from "./claim-script.ts";
import { script } from "./script.ts";
import { TASK_FUNCTIONS } from "./task-script.ts";

const CREATE = `
-- After the fields of insert: fingerprint, claimVersion, policyVersion, redrivenFrom.
local function knownTask(base, new)
  local tenant, key, fingerprint, source = new[2], new[8], new[10], new[13]
  local entry = fingerprint and key and call('HGET', base .. ':k', tenant .. '\\n' .. key)
  if entry then
    local known = cmsgpack.unpack(entry)
    return { known[2] == fingerprint and 1 or 2, known[1] }
  end
  local state = source and find(base, tenant .. '\\n' .. source)
  if state and state[14] then return { 3, state[14] } end
end

local function hasPolicy(base, new)
  if new[12] == 0 then return true end
  local entry = remembered(base .. ':pol', new[2] .. '\\n' .. new[9])
  if not entry then return false end
  local known = cmsgpack.unpack(entry)
  return new[12] > known[3] and new[12] <= known[2]
end

local function create(new)
  local base = KEYS[new[1]]
  local tenant, id, key, source = new[2], new[3], new[8], new[13]
  local known = knownTask(base, new)
  if known then return known end
  local existing = find(base, tenant .. '\\n' .. id)
  -- The same commit was made before, and reported as failed.
  if existing then return { 0, existing[16], 0, 0 } end
  if not hasPolicy(base, new) then return { 4 } end
  local other = new[11] and refusing(base, tenant, new[4], new[11]) or 0
  local isClaimed = new[11] and other == 0
  local sequence = insert(base, new, isClaimed and nodeId or nil, now)
  if new[10] and key then
    -- At once: another create of the batch may have the same key.
    call('HSET', base .. ':k', tenant .. '\\n' .. key, cmsgpack.pack({ id, new[10] }))
  end
  local state = source and find(base, tenant .. '\\n' .. source)
  if state then
    state[14] = id
    save(base, tenant .. '\\n' .. source, state)
  end
  return { 0, sequence, isClaimed and 1 or 0, other }
end
`;

const SETTLE = `
local function follow(base, tasks)
  for _, new in ipairs(tasks) do
    if not find(base, new[2] .. '\\n' .. new[3]) then insert(base, new, nil, now) end
  end
end

-- place, tenant, id, ref, epoch, status, reason, lane, due, lastDelayMs, abandonedCount, attempt,
-- lastStatus, lastError, the tasks that follow each end. Without an attempt, a lastError of false
-- keeps the stored one.
local function settle(item)
  local base, tenant, id = KEYS[item[1]], item[2], item[3]
  local task = tenant .. '\\n' .. id
  local state = find(base, task)
  if not state or state[1] ~= IN_FLIGHT or state[5] ~= item[5] or state[16] ~= item[4] then
    return -1
  end
  local status, attempt = item[6], item[12]
  if state[10] and status ~= SUCCEEDED then status = CANCELLED end
  release(base, state[6], task)
  tally(base, tenant, state[17], IN_FLIGHT, -1)
  tally(base, tenant, state[17], status, 1)
  if status == item[6] then state[13] = item[7] else state[13] = 'aborted' end
  state[1], state[2], state[5], state[6], state[7] = status, item[8], item[5] + 1, false, false
  state[8], state[9] = item[10], item[11]
  if attempt then
    call('RPUSH', base .. ':a:' .. task, attempt)
    state[11], state[12] = item[13], item[14]
  else
    state[3] = state[3] - 1
    state[12] = item[14] or state[12]
  end
  if status == PENDING then
    state[4] = item[9]
    wait(base, tenant, id, state)
  else
    finish(base, tenant, id, state, now)
    follow(base, item[15][status - 1])
  end
  save(base, task, state)
  return status
end

local function cancel(item)
  local base, tenant, id = KEYS[item[1]], item[2], item[3]
  local task = tenant .. '\\n' .. id
  local state = find(base, task)
  if not state then return { 0 } end
  local status = state[1]
  if status == CANCELLED then return { 1 } end
  if status == SUCCEEDED or status == EXHAUSTED then return { 3, status } end
  if status == IN_FLIGHT then
    state[10] = state[10] or now
    save(base, task, state)
    return { 2, state[10] }
  end
  unwait(base, tenant, id, state)
  state[1], state[13] = CANCELLED, 'aborted'
  tally(base, tenant, state[17], PENDING, -1)
  tally(base, tenant, state[17], CANCELLED, 1)
  finish(base, tenant, id, state, now)
  save(base, task, state)
  follow(base, item[4])
  return { 1 }
end

local function retryNow(item)
  local base, tenant, id = KEYS[item[1]], item[2], item[3]
  local task = tenant .. '\\n' .. id
  local state = find(base, task)
  if not state then return { 0 } end
  if state[1] ~= PENDING then return { 2, state[1] } end
  if state[4] > now then
    state[4] = now
    save(base, task, state)
    wait(base, tenant, id, state)
  end
  return { 1, state[17], state[2] }
end
`;

const MAIN = `
local function each(items, apply)
  local results = {}
  for at, item in ipairs(items) do results[at] = apply(item) end
  return results
end

-- Reads the states of all tasks of these items. "idAt": the position of the id, after the tenant.
local function fetchAll(items, idAt)
  local tasks = {}
  for _, item in ipairs(items) do
    local base = KEYS[item[1]]
    local own = tasks[base]
    if not own then
      own = {}
      tasks[base] = own
    end
    own[#own + 1] = item[2] .. '\\n' .. item[idAt]
  end
  for base, own in pairs(tasks) do fetch(base, own) end
end

raiseAll(batch[3])
fetchAll(batch[4], 3)
fetchAll(batch[5], 3)
local results = { each(batch[4], create), each(batch[5], settle), each(batch[6], cancel) }
write()
results[4] = each(batch[7], retryNow)
write()
results[5] = each(batch[8], claim)
for _, item in ipairs(batch[9]) do hint(item) end
flush()
reply[1] = cmsgpack.pack(results)
return reply
`;

/** A version never decreases in a partition. */
export const RAISE_FUNCTIONS = `
local function raise(base, item)
  local known = tonumber(redis.call('HGET', base .. ':v', item[1]) or 0)
  if item[2] > known then redis.call('HSET', base .. ':v', item[1], item[2]) end
end

-- The last key is no partition (see run in connection/link.ts).
local function raiseAll(versions)
  for at = 1, #KEYS - 1 do
    for _, item in ipairs(versions) do raise(KEYS[at], item) end
  end
end
`;

const HEAD = `
local batch = cmsgpack.unpack(ARGV[1])
local now, nodeId = batch[1], batch[2]
local reply = { '' }

-- A field that does not change while the items are carried out: most items of a batch need the same.
local memory = {}

local function remembered(key, field)
  local fields = memory[key]
  if not fields then
    fields = {}
    memory[key] = fields
  end
  local value = fields[field]
  if value == nil then
    value = call('HGET', key, field)
    fields[field] = value
  end
  return value
end

-- 0, or the version that refuses the claim. A destination without a row allows any claim.
local function refusing(base, tenant, destination, version)
  local known = tonumber(remembered(base .. ':v', tenant .. '\\n' .. destination) or 0)
  return known == version and 0 or known
end
`;

export const COMMIT = script(TASK_FUNCTIONS, RAISE_FUNCTIONS, HEAD, CREATE, SETTLE, CLAIM, MAIN);
