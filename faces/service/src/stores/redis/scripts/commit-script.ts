/**
 * Commit script: the script that carries out the items of a batch, with the parts that read and write tasks
 * and claim them.
 */
import { INLINE_PREFIX, KEY_RETENTION_MS } from "../../../model/store.ts";
import { script } from "./script.ts";

// Write script: collects the writes of many tasks to one key, and makes them by one command. A call of
// a command from Lua costs more than most commands do.

/** `later` collects. What a script reads after `write` has all writes before it. */
const WRITE_FUNCTIONS = `
local call = redis.call
local writes, order = {}, {}

-- Lua passes at most 8000 values to a function. It is even, because writes may be pairs.
local MAX_VALUES = 4000

local function later(command, key, ...)
  local id = command .. ' ' .. key
  local values = writes[id]
  if not values then
    values = { command, key }
    writes[id] = values
    order[#order + 1] = values
  end
  for at = 1, select('#', ...) do values[#values + 1] = select(at, ...) end
end

local function write()
  for _, values in ipairs(order) do
    for first = 3, #values, MAX_VALUES do
      call(values[1], values[2], unpack(values, first, math.min(first + MAX_VALUES - 1, #values)))
    end
  end
  writes, order = {}, {}
end
`;

// Task script: the Lua functions that insert, move and remove a task together with its indexes and
// counts. Scripts that change tasks begin with them, and end with `flush()`.

/*
 * Keys of a partition, after its base:
 *
 * - `:s`, `:h`, `:b`: hashes of the state, head and body of each task, by tenant and task id;
 *   `:a:TASK` is the list of its attempts
 * - `:d:LANE`: the waiting tasks of a lane, by due time, then by insertion;
 *   `:lanes`: the lanes with waiting tasks, by the due time of the first
 * - `:cl:NODE`: the claims of a node; `:cn`: their number by node
 * - `:l:TENANT`, `:o:TENANT`, `:x:TENANT`: the ids of all tasks, of those that have not ended, and of
 *   dead letters; `:kx`: the ids by idempotency key
 * - `:k`, `:ke`: idempotency keys, and when those of ended tasks expire
 * - `:en`, `:ex`: ended tasks and dead letters by the instant of their end
 * - `:c:TENANT`, `:n:TENANT`: counts by destination and status, and by status;
 *   `:dt:TENANT`, `:dn:TENANT`: tasks by destination, and the names of these destinations
 * - `:po`, `:pi`: unfinished tasks by policy, and stored tasks by inline policy;
 *   `:pol`, `:pt:POLICY`: which versions of policies exist, as far as this partition was told
 * - `:v`: the versions of destination rows; `:m`: the last sequence numbers
 */

/**
 * The state is a list: positions as in `rows/task-codec.ts`, but from 1, then what scripts need. States
 * are read together (`fetch`) and kept in `states`.
 */
export const TASK_FUNCTIONS = `
${WRITE_FUNCTIONS}
local PENDING, IN_FLIGHT, SUCCEEDED, EXHAUSTED, CANCELLED = 0, 1, 2, 3, 4
local counts, totals, lanes, sequences = {}, {}, {}, {}
local states = {}
-- Keys to delete.
local unused = {}

local function add(group, key, field, step)
  local fields = group[key]
  if not fields then
    fields = {}
    group[key] = fields
  end
  fields[field] = (fields[field] or 0) + step
end

local function tally(base, tenant, destination, status, step)
  add(counts, base .. ':c:' .. tenant, destination .. '\\n' .. status, step)
  add(counts, base .. ':n:' .. tenant, status, step)
end

local function laneOf(tenant, destination, lane)
  return tenant .. '\\n' .. destination .. '\\n' .. lane
end

-- Equal due times are in the order of insertion, because the members begin with the sequence number.
local function memberOf(sequence, id)
  return string.format('%012d', sequence) .. id
end

local function touch(base, lane)
  local touched = lanes[base]
  if not touched then
    touched = {}
    lanes[base] = touched
  end
  touched[lane] = true
end

local function wait(base, tenant, id, state)
  local lane = laneOf(tenant, state[17], state[2])
  later('ZADD', base .. ':d:' .. lane, state[4], memberOf(state[16], id))
  touch(base, lane)
end

local function unwait(base, tenant, id, state)
  local lane = laneOf(tenant, state[17], state[2])
  later('ZREM', base .. ':d:' .. lane, memberOf(state[16], id))
  touch(base, lane)
end

local function hold(base, node, task, state)
  later('ZADD', base .. ':cl:' .. node, state[16], task)
  add(counts, base .. ':cn', node, 1)
end

local function release(base, node, task)
  later('ZREM', base .. ':cl:' .. node, task)
  add(counts, base .. ':cn', node, -1)
end

local function statesOf(base)
  local found = states[base]
  if not found then
    found = {}
    states[base] = found
  end
  return found
end

-- Reads the states of these tasks by one command.
local function fetch(base, tasks)
  local found = statesOf(base)
  for first = 1, #tasks, MAX_VALUES do
    local last = math.min(first + MAX_VALUES - 1, #tasks)
    local stored = call('HMGET', base .. ':s', unpack(tasks, first, last))
    for at = first, last do
      if found[tasks[at]] == nil then
        local state = stored[at - first + 1]
        found[tasks[at]] = state and cmsgpack.unpack(state)
      end
    end
  end
end

-- False: there is no such task.
local function find(base, task)
  local found = statesOf(base)
  local state = found[task]
  if state == nil then
    local stored = call('HGET', base .. ':s', task)
    state = stored and cmsgpack.unpack(stored)
    found[task] = state
  end
  return state
end

local function save(base, task, state)
  local stored = cmsgpack.pack(state)
  statesOf(base)[task] = state
  later('HSET', base .. ':s', task, stored)
  return stored
end

local function nextSequence(base)
  local last = sequences[base] or tonumber(call('HGET', base .. ':m', 'seq') or 0)
  sequences[base] = last + 1
  return last + 1
end

local function isInline(policy)
  return string.sub(policy, 1, ${INLINE_PREFIX.length}) == '${INLINE_PREFIX}'
end

-- A new task: place, tenant, id, destination, due, head, body, key, policy. Claimed: by that node.
local function insert(base, new, node, now)
  local tenant, id, destination, key, policy = new[2], new[3], new[4], new[8], new[9]
  local task = tenant .. '\\n' .. id
  local sequence = nextSequence(base)
  local started = node and 1 or 0
  local state = { started, 0, started, new[5], started, node or false, node and now or false, 0, 0,
    false, false, false, false, false, false, sequence, destination, policy, key }
  save(base, task, state)
  later('HSET', base .. ':h', task, new[6])
  if new[7] then later('HSET', base .. ':b', task, new[7]) end
  later('ZADD', base .. ':l:' .. tenant, 0, id)
  later('ZADD', base .. ':o:' .. tenant, 0, id)
  if key then later('ZADD', base .. ':kx', 0, tenant .. '\\n' .. key .. '\\n' .. id) end
  if node then hold(base, node, task, state) else wait(base, tenant, id, state) end
  tally(base, tenant, destination, started, 1)
  add(totals, base .. '\\n' .. tenant, destination, 1)
  local used = tenant .. '\\n' .. policy
  add(counts, base .. ':po', used, 1)
  if isInline(policy) then add(counts, base .. ':pi', used, 1) end
  return sequence
end

-- The state already has the final status.
local function finish(base, tenant, id, state, now)
  local task = tenant .. '\\n' .. id
  state[15] = now
  later('ZREM', base .. ':o:' .. tenant, id)
  if state[1] == EXHAUSTED then
    later('ZADD', base .. ':x:' .. tenant, 0, id)
    later('ZADD', base .. ':ex', now, task)
  else
    later('ZADD', base .. ':en', now, task)
  end
  add(counts, base .. ':po', tenant .. '\\n' .. state[18], -1)
  if not state[19] then return end
  local key = tenant .. '\\n' .. state[19]
  local owner = call('HGET', base .. ':k', key)
  if owner and cmsgpack.unpack(owner)[1] == id then
    later('ZADD', base .. ':ke', now + ${KEY_RETENTION_MS}, key)
  end
end

-- Removes a task that has ended, except from the index of ends. Its key stays.
local function remove(base, task, tenant, id, state)
  statesOf(base)[task] = false
  later('HDEL', base .. ':s', task)
  later('HDEL', base .. ':h', task)
  later('HDEL', base .. ':b', task)
  unused[#unused + 1] = base .. ':a:' .. task
  later('ZREM', base .. ':l:' .. tenant, id)
  if state[1] == EXHAUSTED then later('ZREM', base .. ':x:' .. tenant, id) end
  if state[19] then later('ZREM', base .. ':kx', tenant .. '\\n' .. state[19] .. '\\n' .. id) end
  tally(base, tenant, state[17], state[1], -1)
  add(totals, base .. '\\n' .. tenant, state[17], -1)
  if isInline(state[18]) then add(counts, base .. ':pi', tenant .. '\\n' .. state[18], -1) end
end

local function flushTotals(place, fields)
  local base, tenant = string.match(place, '^([^\\n]*)\\n(.*)$')
  for destination, step in pairs(fields) do
    if step ~= 0 then
      local total = call('HINCRBY', base .. ':dt:' .. tenant, destination, step)
      if total == 0 then
        call('HDEL', base .. ':dt:' .. tenant, destination)
        call('ZREM', base .. ':dn:' .. tenant, destination)
      elseif total == step then
        call('ZADD', base .. ':dn:' .. tenant, 0, destination)
      end
    end
  end
end

-- Writes what is left and the counts, once per script, and the first due time of each lane that has
-- changed.
local function flush()
  write()
  for first = 1, #unused, MAX_VALUES do
    call('DEL', unpack(unused, first, math.min(first + MAX_VALUES - 1, #unused)))
  end
  for base, last in pairs(sequences) do call('HSET', base .. ':m', 'seq', last) end
  for key, fields in pairs(counts) do
    for field, step in pairs(fields) do
      if step ~= 0 and call('HINCRBY', key, field, step) == 0 then call('HDEL', key, field) end
    end
  end
  for place, fields in pairs(totals) do flushTotals(place, fields) end
  for base, touched in pairs(lanes) do
    for lane in pairs(touched) do
      local first = call('ZRANGE', base .. ':d:' .. lane, 0, 0, 'WITHSCORES')
      if first[1] then
        call('ZADD', base .. ':lanes', first[2], lane)
      else
        call('ZREM', base .. ':lanes', lane)
      end
    end
  end
end
`;

// Claim script: the part of the commit script that claims waiting tasks.

const CLAIM = `
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
`;

// Commit script: carries out the items of a batch in one partition, or in several ones of the same
// server. Its argument is `[now, nodeId, versions, creates, settles, cancels, retryNows, claims,
// expiresAt]`.
// Each item begins with the number of its partition among the keys. The reply is the packed
// results, and then the state, head and body of each claimed task.

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

-- place, tenant, id, ref, epoch, claimant, status, reason, lane, due, lastDelayMs, abandonedCount, attempt,
-- lastStatus, lastError, the tasks that follow each end. Without an attempt, a lastError of false
-- keeps the stored one.
local function settle(item)
  local base, tenant, id = KEYS[item[1]], item[2], item[3]
  local task = tenant .. '\\n' .. id
  local state = find(base, task)
  if not state or state[1] ~= IN_FLIGHT or state[5] ~= item[5] or state[6] ~= item[6]
    or state[16] ~= item[4] then
    return -1
  end
  local status, attempt = item[7], item[13]
  if state[10] and status ~= SUCCEEDED then status = CANCELLED end
  release(base, state[6], task)
  tally(base, tenant, state[17], IN_FLIGHT, -1)
  tally(base, tenant, state[17], status, 1)
  if status == item[7] then state[13] = item[8] else state[13] = 'aborted' end
  state[1], state[2], state[5], state[6], state[7] = status, item[9], item[5] + 1, false, false
  state[8], state[9] = item[11], item[12]
  if attempt then
    call('RPUSH', base .. ':a:' .. task, attempt)
    state[11], state[12] = item[14], item[15]
  else
    state[3] = state[3] - 1
    state[12] = item[15] or state[12]
  end
  if status == PENDING then
    state[4] = item[10]
    wait(base, tenant, id, state)
  else
    finish(base, tenant, id, state, now)
    follow(base, item[16][status - 1])
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
flush()
reply[1] = cmsgpack.pack(results)
return reply
`;

/** A version never decreases in a partition. It is forgotten after its row was removed (`DROP_VERSIONS`). */
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

if batch[9] then
  local time = redis.call('TIME')
  local lateMs = time[1] * 1000 + math.floor(time[2] / 1000) - batch[9]
  if lateMs > 0 then
    return redis.error_reply('RDLATE the commit arrived ' .. lateMs .. ' ms after it had expired')
  end
end

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
