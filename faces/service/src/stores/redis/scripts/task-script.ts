/**
 * Task script: the Lua functions that insert, move and remove a task together with its indexes and
 * counts. Scripts that change tasks begin with them, and end with `flush()`.
 */
import { INLINE_PREFIX, KEY_RETENTION_MS } from "../../../model/store.ts";
import { WRITE_FUNCTIONS } from "./write-script.ts";

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
 * - `:v`: the versions of destination rows; `:hz`, `:hd`: hints; `:m`: the last sequence numbers
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

-- Removes a task that has ended. Its key stays.
local function remove(base, tenant, id, state)
  local task = tenant .. '\\n' .. id
  statesOf(base)[task] = false
  later('HDEL', base .. ':s', task)
  later('HDEL', base .. ':h', task)
  later('HDEL', base .. ':b', task)
  call('DEL', base .. ':a:' .. task)
  later('ZREM', base .. ':l:' .. tenant, id)
  if state[1] == EXHAUSTED then
    later('ZREM', base .. ':x:' .. tenant, id)
    later('ZREM', base .. ':ex', task)
  else
    later('ZREM', base .. ':en', task)
  end
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
