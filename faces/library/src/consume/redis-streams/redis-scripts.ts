/**
 * Redis scripts: every move of a message is one script, so that a crash loses nothing and doubles
 * nothing. A script takes the time as an argument.
 *
 * A message that comes back is not added to its stream again: other groups of that stream would get it
 * too. It waits in a sorted set of its group, and moves to a stream of its group when it is due.
 */

/** Fields that a moved message has beside its own: its first id, and its state. */
export const ID_FIELD = "redrive-id";
export const STATE_FIELD = "redrive-state";
export const REASON_FIELD = "redrive-reason";

/**
 * Finds the fields of an entry that this consumer may move. Another consumer may have claimed it. An
 * entry that producers trimmed cannot be claimed by anybody; its fields are then the last arguments.
 * An entry that is not in the retry stream was moved before.
 */
const OWN_FIELDS = `
local function own_fields(source, group, consumer, id, is_retry, from)
  local owned = #redis.call('XPENDING', source, group, id, id, 1, consumer) > 0
  local entry = redis.call('XRANGE', source, id, id)[1]
  if not owned and (entry or is_retry == '1') then return nil, 'lost' end
  if not entry and #ARGV < from then return nil, 'trimmed' end
  local fields, own = entry and entry[2] or {}, {}
  if not entry then for i = from, #ARGV do fields[#fields + 1] = ARGV[i] end end
  for i = 1, #fields, 2 do
    local name = fields[i]
    if name ~= '${ID_FIELD}' and name ~= '${STATE_FIELD}' and name ~= '${REASON_FIELD}' then
      own[#own + 1] = name
      own[#own + 1] = fields[i + 1]
    end
  end
  return own, 'moved'
end
local function add(fields, name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
`;

/** KEYS: source, delayed, data. ARGV: group, consumer, entry, due, id, state, is the source the retry stream; fields. */
export const DELAY: string = `${OWN_FIELDS}
local source, group, entry = KEYS[1], ARGV[1], ARGV[3]
local fields, result = own_fields(source, group, ARGV[2], entry, ARGV[7], 8)
if not fields then return result end
add(fields, '${ID_FIELD}', ARGV[5])
add(fields, '${STATE_FIELD}', ARGV[6])
local member = ARGV[7] .. entry
redis.call('HSET', KEYS[3], member, cmsgpack.pack(fields))
redis.call('ZADD', KEYS[2], ARGV[4], member)
redis.call('XACK', source, group, entry)
if ARGV[7] == '1' then redis.call('XDEL', source, entry) end
return result
`;

/** KEYS: source, dead. ARGV: group, consumer, entry, max length or 0, id, state, is the source the retry stream, reason; fields. */
export const DEAD_LETTER: string = `${OWN_FIELDS}
local source, group, entry = KEYS[1], ARGV[1], ARGV[3]
local fields, result = own_fields(source, group, ARGV[2], entry, ARGV[7], 9)
if not fields then return result end
add(fields, '${ID_FIELD}', ARGV[5])
add(fields, '${STATE_FIELD}', ARGV[6])
add(fields, '${REASON_FIELD}', ARGV[8])
if ARGV[4] == '0' then redis.call('XADD', KEYS[2], '*', unpack(fields))
else redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', unpack(fields)) end
redis.call('XACK', source, group, entry)
if ARGV[7] == '1' then redis.call('XDEL', source, entry) end
return result
`;

/** KEYS: delayed, data, retry. ARGV: group, consumer, now, count. Returns entries and the next due time. */
export const TAKE_DUE: string = `
local delayed, data, retry = KEYS[1], KEYS[2], KEYS[3]
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', ARGV[3], 'LIMIT', 0, ARGV[4])
for _, member in ipairs(due) do
  local packed = redis.call('HGET', data, member)
  if packed then redis.call('XADD', retry, '*', unpack(cmsgpack.unpack(packed))) end
  redis.call('HDEL', data, member)
  redis.call('ZREM', delayed, member)
end
local read = redis.call('XREADGROUP', 'GROUP', ARGV[1], ARGV[2], 'COUNT', ARGV[4], 'STREAMS', retry, '>')
local first = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')
return { read and read[1][2] or {}, first[2] or '' }
`;

/** KEYS: source. ARGV: group, consumer, idle ms, cursor, count. Returns the cursor, entries and deliveries. */
export const CLAIM_IDLE: string = `
local claimed = redis.call('XAUTOCLAIM', KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], 'COUNT', ARGV[5])
local entries, deliveries = {}, {}
for _, entry in ipairs(claimed[2]) do
  if entry then
    entries[#entries + 1] = entry
    local pending = redis.call('XPENDING', KEYS[1], ARGV[1], entry[1], entry[1], 1)
    deliveries[#deliveries + 1] = pending[1] and pending[1][4] or 1
  end
end
return { claimed[1], entries, deliveries }
`;

/** Shows that this consumer still works on its entries. KEYS: source. ARGV: group, consumer; entries. */
export const RENEW: string = `
for i = 3, #ARGV do
  local owned = #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0
  if owned and redis.call('XRANGE', KEYS[1], ARGV[i], ARGV[i])[1] then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'JUSTID')
  end
end
`;

/** KEYS: retry. ARGV: group; entries. */
export const ACK_RETRIED: string = `
for i = 2, #ARGV do
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[i])
  redis.call('XDEL', KEYS[1], ARGV[i])
end
`;

/** Deletes a consumer that has nothing pending: with entries, they would be lost. KEYS: source. ARGV: group, consumer. */
export const LEAVE_GROUP: string = `
for _, info in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local fields = {}
  for i = 1, #info, 2 do fields[info[i]] = info[i + 1] end
  if fields['name'] == ARGV[2] and fields['pending'] == 0 then
    return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
  end
end
`;

/** Removes what every group of the stream has handled. KEYS: stream. */
export const TRIM: string = `
local function compare(a, b)
  local am, as = a:match('(%d+)-(%d+)')
  local bm, bs = b:match('(%d+)-(%d+)')
  if #am ~= #bm then return #am < #bm end
  if am ~= bm then return am < bm end
  if #as ~= #bs then return #as < #bs end
  return as < bs
end
local oldest
for _, info in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local group = {}
  for i = 1, #info, 2 do group[info[i]] = info[i + 1] end
  local needed = group['last-delivered-id']
  if group['pending'] > 0 then
    needed = redis.call('XPENDING', KEYS[1], group['name'])[2]
  end
  if not oldest or compare(needed, oldest) then oldest = needed end
end
if not oldest then return 0 end
return redis.call('XTRIM', KEYS[1], 'MINID', '~', oldest)
`;
