/**
 * Row scripts: destination rows and documents. Their key is that of all data without a partition.
 * There, `:r` holds the rows by tenant and name; `:rn:TENANT` the names, `:ro:TENANT` those whose
 * circuit is not closed, `:rp:TENANT` those that are paused; `:ru` the versions that may not have
 * reached all partitions yet, by the instant of their write. `removed` of `:m` is the highest version of
 * the rows that were removed: every later row has a version above it. `:doc:KIND` and `:dl:KIND` hold documents
 * and their order.
 */
import { script } from "./script.ts";

export const ROW_FUNCTIONS = `
local control = KEYS[1]

local function nowMs()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function lastRemoved()
  return tonumber(redis.call('HGET', control .. ':m', 'removed') or 0)
end

local function mark(key, name, isMember)
  if isMember then redis.call('ZADD', key, 0, name) else redis.call('ZREM', key, name) end
end

local function write(id, row, stored)
  redis.call('HSET', control .. ':r', id, stored)
  redis.call('ZADD', control .. ':rn:' .. row[4], 0, row[5])
  mark(control .. ':ro:' .. row[4], row[5], row[2] ~= 'CLOSED')
  mark(control .. ':rp:' .. row[4], row[5], row[3])
end
`;

/**
 * Writes each row over the version before it. Returns at each index an empty text, or the stored row
 * that refused the write; if none is stored, the version that a destination without a row has.
 */
export const WRITE_ROWS = script(
  ROW_FUNCTIONS,
  `
local results = {}
for at, packed in ipairs(ARGV) do
  local row = cmsgpack.unpack(packed)
  local id = row[4] .. '\\n' .. row[5]
  local stored = redis.call('HGET', control .. ':r', id)
  local version = stored and cmsgpack.unpack(stored)[1] or lastRemoved()
  if version == row[1] - 1 then
    write(id, row, packed)
    redis.call('ZADD', control .. ':ru', nowMs(), id .. '\\n' .. row[1])
    results[at] = ''
  else
    results[at] = stored or version
  end
end
return results
`,
);

/**
 * Reads rows: pairs of a destination and the highest version that a partition knows. A higher version
 * there than here can only be left from before this server lost writes. The row then gets a version
 * that is higher still, so that all nodes read it again. If no row is stored, a version up to that of the
 * last removed row is a remainder: the reply is then the version that a destination without a row has.
 */
export const READ_ROWS = script(
  ROW_FUNCTIONS,
  `
local rows = {}
for at = 1, #ARGV, 2 do
  local id, known = ARGV[at], tonumber(ARGV[at + 1])
  local stored = redis.call('HGET', control .. ':r', id)
  if not stored and known <= lastRemoved() then
    rows[#rows + 1] = lastRemoved()
  else
    local tenant, name = string.match(id, '^([^\\n]*)\\n(.*)$')
    local row = stored and cmsgpack.unpack(stored)
      or { 0, 'CLOSED', false, tenant, name, false, 0, 0, 0 }
    if row[1] < known then
      row[1] = known + 1
      stored = cmsgpack.pack(row)
      write(id, row, stored)
    end
    rows[#rows + 1] = stored
  end
end
return rows
`,
);

/**
 * Removes rows that have these versions: pairs of a destination and a version. One that may not have
 * reached all partitions stays. Returns 1 or 0 for each.
 */
export const REMOVE_ROWS = script(
  ROW_FUNCTIONS,
  `
local removed = {}
for at = 1, #ARGV, 2 do
  local id, version = ARGV[at], tonumber(ARGV[at + 1])
  local stored = redis.call('HGET', control .. ':r', id)
  local row = stored and cmsgpack.unpack(stored)
  local isSettled = not redis.call('ZSCORE', control .. ':ru', id .. '\\n' .. ARGV[at + 1])
  if row and row[1] == version and isSettled then
    redis.call('HDEL', control .. ':r', id)
    for _, kind in ipairs({ ':rn:', ':ro:', ':rp:' }) do
      redis.call('ZREM', control .. kind .. row[4], row[5])
    end
    redis.call('HSET', control .. ':m', 'removed', math.max(lastRemoved(), version))
    removed[#removed + 1] = 1
  else
    removed[#removed + 1] = 0
  end
end
return removed
`,
);

/** Which versions in a partition are of rows that were removed: pairs as above. Returns 1 or 0 for each. */
export const ARE_REMAINDERS = script(
  ROW_FUNCTIONS,
  `
local found = {}
for at = 1, #ARGV, 2 do
  local hasRow = redis.call('HEXISTS', control .. ':r', ARGV[at]) == 1
  found[#found + 1] = not hasRow and tonumber(ARGV[at + 1]) <= lastRemoved() and 1 or 0
end
return found
`,
);

/** Writes a document over the version before it: kind, id, version, text. Returns 1 if written. */
export const PUT_DOCUMENT = script(`
local documents = KEYS[1] .. ':doc:' .. ARGV[1]
local stored = redis.call('HGET', documents, ARGV[2])
local version = stored and cmsgpack.unpack(stored)[1] or 0
if version ~= tonumber(ARGV[3]) - 1 then return 0 end
redis.call('HSET', documents, ARGV[2], cmsgpack.pack({ tonumber(ARGV[3]), ARGV[4] }))
redis.call('ZADD', KEYS[1] .. ':dl:' .. ARGV[1], 0, ARGV[2])
return 1
`);

/** Writes or removes documents of any version: lists of kind, id and text. Returns how many it removed. */
export const WRITE_DOCUMENTS = script(`
local removed = 0
for _, item in ipairs(cmsgpack.unpack(ARGV[1])) do
  local documents, order = KEYS[1] .. ':doc:' .. item[1], KEYS[1] .. ':dl:' .. item[1]
  if item[3] then
    local stored = redis.call('HGET', documents, item[2])
    local version = stored and cmsgpack.unpack(stored)[1] or 0
    redis.call('HSET', documents, item[2], cmsgpack.pack({ version + 1, item[3] }))
    redis.call('ZADD', order, 0, item[2])
  else
    removed = removed + redis.call('HDEL', documents, item[2])
    redis.call('ZREM', order, item[2])
  end
end
return removed
`);

/** Documents in their order: kind, the bounds, and how many. Returns ids and documents in turns. */
export const LIST_DOCUMENTS = script(`
local ids = redis.call('ZRANGEBYLEX', KEYS[1] .. ':dl:' .. ARGV[1], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local found = {}
for _, id in ipairs(ids) do
  found[#found + 1] = id
  found[#found + 1] = redis.call('HGET', KEYS[1] .. ':doc:' .. ARGV[1], id)
end
return found
`);
