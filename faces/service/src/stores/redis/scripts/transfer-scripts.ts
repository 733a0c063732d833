/**
 * Transfer scripts: add rows that were moved from another store, as they are. Each one adds all of its
 * rows, or none: then it returns the text of the first row that it cannot add.
 */

import { TASK_FUNCTIONS } from "./commit-script.ts";
import { POLICY_FUNCTIONS } from "./policy-scripts.ts";
import { ROW_FUNCTIONS } from "./row-scripts.ts";
import { script } from "./script.ts";

/** In a partition: lists of tenant, id, state, head, body, fingerprint, expiresAt. */
export const RESTORE_TASKS = script(
  TASK_FUNCTIONS,
  `
local base, items = KEYS[1], cmsgpack.unpack(ARGV[1])

local function keep(tenant, id, state)
  local task = tenant .. '\\n' .. id
  if state[1] == PENDING then
    wait(base, tenant, id, state)
  elseif state[1] == IN_FLIGHT then
    hold(base, state[6], task, state)
  elseif state[1] == EXHAUSTED then
    call('ZADD', base .. ':x:' .. tenant, 0, id)
    call('ZADD', base .. ':ex', state[15], task)
  else
    call('ZADD', base .. ':en', state[15], task)
  end
  if state[1] == PENDING or state[1] == IN_FLIGHT then
    call('ZADD', base .. ':o:' .. tenant, 0, id)
    add(counts, base .. ':po', tenant .. '\\n' .. state[18], 1)
  end
end

local function restore(tenant, id, state, head, body)
  local task, key = tenant .. '\\n' .. id, state[19]
  state[16] = nextSequence(base)
  save(base, task, state)
  call('HSET', base .. ':h', task, head)
  if body then call('HSET', base .. ':b', task, body) end
  call('ZADD', base .. ':l:' .. tenant, 0, id)
  if key then call('ZADD', base .. ':kx', 0, tenant .. '\\n' .. key .. '\\n' .. id) end
  keep(tenant, id, state)
  tally(base, tenant, state[17], state[1], 1)
  add(totals, base .. '\\n' .. tenant, state[17], 1)
  if isInline(state[18]) then add(counts, base .. ':pi', tenant .. '\\n' .. state[18], 1) end
end

for _, item in ipairs(items) do
  local key = item[6] and item[1] .. '\\n' .. item[3][19]
  if find(base, item[1] .. '\\n' .. item[2]) or (key and call('HEXISTS', base .. ':k', key) == 1) then
    return item[2]
  end
end
for _, item in ipairs(items) do
  restore(item[1], item[2], item[3], item[4], item[5])
  if item[6] then
    local key = item[1] .. '\\n' .. item[3][19]
    call('HSET', base .. ':k', key, cmsgpack.pack({ item[2], item[6] }))
    if item[7] then call('ZADD', base .. ':ke', item[7], key) end
  end
end
flush()
return 0
`,
);

/**
 * In a partition: lists of a task, the number of its attempts before, and the attempts. Returns 0, or the
 * first task that does not exist or has another number of attempts.
 */
export const RESTORE_ATTEMPTS = script(`
local base, items = KEYS[1], cmsgpack.unpack(ARGV[1])
for _, item in ipairs(items) do
  local isKnown = redis.call('HEXISTS', base .. ':s', item[1]) == 1
  if not isKnown or redis.call('LLEN', base .. ':a:' .. item[1]) ~= item[2] then return item[1] end
end
for _, item in ipairs(items) do
  for at = 3, #item do redis.call('RPUSH', base .. ':a:' .. item[1], item[at]) end
end
return 0
`);

/** In a partition: lists of the key with its tenant, the task, the fingerprint, expiresAt. */
export const RESTORE_KEYS = script(`
local base, items = KEYS[1], cmsgpack.unpack(ARGV[1])
for _, item in ipairs(items) do
  if redis.call('HEXISTS', base .. ':k', item[1]) == 1 then return item[1] end
end
for _, item in ipairs(items) do
  redis.call('HSET', base .. ':k', item[1], cmsgpack.pack({ item[2], item[3] }))
  if item[4] then redis.call('ZADD', base .. ':ke', item[4], item[1]) end
end
return 0
`);

/** Lists of the policy with its tenant, the version, the packed row, removedAt, and 1 if it is inline. */
export const RESTORE_POLICIES = script(
  POLICY_FUNCTIONS,
  `
local items = cmsgpack.unpack(ARGV[1])
for _, item in ipairs(items) do
  if redis.call('HEXISTS', control .. ':pr', item[1] .. '\\n' .. item[2]) == 1 then return item[1] end
end
for _, item in ipairs(items) do
  local policy, version = item[1], item[2]
  local entry = get(policy) or { 0, 0, 0, 0 }
  local removed = item[4] and math.max(entry[3], version) or entry[3]
  set(policy, { nextEpoch(), math.max(entry[2], version), removed, 0 })
  redis.call('HSET', control .. ':pr', policy .. '\\n' .. version, item[3])
  local tenant, id = string.match(policy, '^([^\\n]*)\\n(.*)$')
  redis.call('ZADD', control .. ':pl:' .. tenant, 0, id)
  if item[5] == 1 then redis.call('ZADD', control .. ':px', 0, policy) end
end
return 0
`,
);

/** Packed rows of destinations, of any version. */
export const RESTORE_ROWS = script(
  ROW_FUNCTIONS,
  `
for _, packed in ipairs(ARGV) do
  local row = cmsgpack.unpack(packed)
  if redis.call('HEXISTS', control .. ':r', row[4] .. '\\n' .. row[5]) == 1 then return row[5] end
end
for _, packed in ipairs(ARGV) do
  local row = cmsgpack.unpack(packed)
  local id = row[4] .. '\\n' .. row[5]
  write(id, row, packed)
  redis.call('ZADD', control .. ':ru', nowMs(), id .. '\\n' .. row[1])
end
return 0
`,
);

/** Lists of kind, id with its tenant, version, text. */
export const RESTORE_DOCUMENTS = script(`
local control, items = KEYS[1], cmsgpack.unpack(ARGV[1])
for _, item in ipairs(items) do
  if redis.call('HEXISTS', control .. ':doc:' .. item[1], item[2]) == 1 then return item[2] end
end
for _, item in ipairs(items) do
  redis.call('HSET', control .. ':doc:' .. item[1], item[2], cmsgpack.pack({ item[3], item[4] }))
  redis.call('ZADD', control .. ':dl:' .. item[1], 0, item[2])
end
return 0
`);
