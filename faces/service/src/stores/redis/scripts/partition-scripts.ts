/** Partition scripts: what scripts do in one partition besides commits. Their key is its base. */
import { RAISE_FUNCTIONS, TASK_FUNCTIONS } from "./commit-script.ts";
import { script } from "./script.ts";

/** Raises versions of destination rows in all given partitions: `[[destination, version], ...]`. */
export const RAISE_VERSIONS = script(
  RAISE_FUNCTIONS,
  `
raiseAll(cmsgpack.unpack(ARGV[1]))
return 1
`,
);

/**
 * Forgets versions of rows that were removed: `[[destination, version], ...]`. A higher version is of a
 * row that was written since.
 */
export const DROP_VERSIONS = script(`
local versions = cmsgpack.unpack(ARGV[1])
-- The last key is no partition (see run in connection/link.ts).
for at = 1, #KEYS - 1 do
  local key = KEYS[at] .. ':v'
  for _, item in ipairs(versions) do
    local known = tonumber(redis.call('HGET', key, item[1]) or 0)
    if known > 0 and known <= item[2] then redis.call('HDEL', key, item[1]) end
  end
end
return 1
`);

/** How much of `SWEEP` there is to do: `now`, `endedBefore`, `deadBefore`. */
export const COUNT_EXPIRED = script(`
local base = KEYS[1]
return redis.call('ZCOUNT', base .. ':en', '-inf', '(' .. ARGV[2])
  + redis.call('ZCOUNT', base .. ':ex', '-inf', '(' .. ARGV[3])
  + redis.call('ZCOUNT', base .. ':ke', '-inf', ARGV[1])
`);

/** Removes tasks, then keys, at most `limit`: `now`, `endedBefore`, `deadBefore`, `limit`. */
export const SWEEP = script(
  TASK_FUNCTIONS,
  `
local base, limit, removed = KEYS[1], tonumber(ARGV[4]), 0

local function removeEnded(key, before)
  local tasks = call('ZRANGEBYSCORE', key, '-inf', '(' .. before, 'LIMIT', 0, limit - removed)
  if #tasks == 0 then return end
  fetch(base, tasks)
  for _, task in ipairs(tasks) do
    local tenant, id = string.match(task, '^([^\\n]*)\\n(.*)$')
    remove(base, task, tenant, id, find(base, task))
  end
  -- They are the first ones.
  call('ZREMRANGEBYRANK', key, 0, #tasks - 1)
  removed = removed + #tasks
end

removeEnded(base .. ':en', ARGV[2])
removeEnded(base .. ':ex', ARGV[3])
local keys = call('ZRANGEBYSCORE', base .. ':ke', '-inf', ARGV[1], 'LIMIT', 0, limit - removed)
for _, key in ipairs(keys) do later('HDEL', base .. ':k', key) end
if #keys > 0 then call('ZREMRANGEBYRANK', base .. ':ke', 0, #keys - 1) end
flush()
return removed + #keys
`,
);

/** Removes the dead letters among the tasks of a tenant: the tenant, then the ids. */
export const DISCARD = script(
  TASK_FUNCTIONS,
  `
local base, tenant, removed = KEYS[1], ARGV[1], 0
for at = 2, #ARGV do
  local task = tenant .. '\\n' .. ARGV[at]
  local state = find(base, task)
  if state and state[1] == EXHAUSTED then
    remove(base, task, tenant, ARGV[at], state)
    later('ZREM', base .. ':ex', task)
    removed = removed + 1
  end
end
flush()
return removed
`,
);

/**
 * Lanes whose first task is due within a time, after a position: `from`, `before`, `limit`, and the due time
 * and name of the lane before. Between two calls lanes move, so the position is found by comparing.
 */
export const DUE_LANES = script(`
local key, from, before, limit = KEYS[1] .. ':lanes', ARGV[1], ARGV[2], tonumber(ARGV[3])
if ARGV[4] then
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[4])
  local high = redis.call('ZCOUNT', key, '-inf', ARGV[4])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if redis.call('ZRANGE', key, middle, middle)[1] <= ARGV[5] then
      low = middle + 1
    else
      high = middle
    end
  end
  return redis.call('ZRANGEBYSCORE', key, '-inf', '(' .. before, 'WITHSCORES', 'LIMIT', low, limit)
end
return redis.call('ZRANGEBYSCORE', key, from, '(' .. before, 'WITHSCORES', 'LIMIT', 0, limit)
`);

/** The counts by status and the first due time of destinations: the tenant, then the names. */
export const DESTINATIONS = script(`
local base, tenant, results = KEYS[1], ARGV[1], {}
for at = 2, #ARGV do
  local name, due = ARGV[at], false
  local fields = {}
  for status = 0, 4 do fields[status + 1] = name .. '\\n' .. status end
  local counts = redis.call('HMGET', base .. ':c:' .. tenant, unpack(fields))
  for lane = 0, 2 do
    local key = base .. ':d:' .. tenant .. '\\n' .. name .. '\\n' .. lane
    local first = counts[1] and redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]
    if first and (not due or tonumber(first) < due) then due = tonumber(first) end
  end
  local numbers = {}
  for status = 1, 5 do numbers[status] = tonumber(counts[status] or 0) end
  numbers[6] = due
  results[at - 1] = numbers
end
return cmsgpack.pack(results)
`);

/** Which of the destinations have tasks: the tenant and the name of each, in turns. */
export const HAVE_TASKS = script(`
local found = {}
for at = 1, #ARGV, 2 do
  found[#found + 1] = redis.call('HEXISTS', KEYS[1] .. ':dt:' .. ARGV[at], ARGV[at + 1])
end
return found
`);
