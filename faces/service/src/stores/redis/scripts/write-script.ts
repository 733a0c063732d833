/**
 * Write script: collects the writes of many tasks to one key, and makes them by one command. A call of a
 * command from Lua costs more than most commands do.
 */

/** `later` collects. What a script reads after `write` has all writes before it. */
export const WRITE_FUNCTIONS = `
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
