-- Sliding log: internal/limit/sliding_log.go and log.go, and granter.Counter.Acquire.
--
-- Value: version, time, units of the live entries, base, how many entries are over
-- and how many there are in all, units out on lease, and until when; askers; then
-- the entries by time, oldest first, 8 bytes each: time (after base) and units. A
-- charge of more units than two bytes hold is several entries of the same time.
-- Behind the last entry there may be rubbish.
--
-- A short log is read and replaced as a whole. Of a long one only what is needed
-- is read, and only what changed is written. In place of log.go's running sums a
-- denial adds up the entries that have to be over before the need fits: as many as
-- the units that are missing, one or two unless there is a debt.
local HEADER, HEAD, ENTRY = '<BI7I5I7I4I4I5I7I6I4I4', 54, 8
local SHORT = 1024 -- bytes that are read at first
local RECLAIM = 32 -- the least dead front that is worth reclaiming, as in log.go

--@ debt
--@ size

local value = redis.call('GETRANGE', KEYS[1], 0, SHORT - 1)
local known = value:byte() == VERSION
--@ foreign
local at, level, base, dead, n, leased, out = now, 0, now, 0, 0, 0, 0
local last, asking, older = 0, 0, 0
if known then
  local _
  _, at, level, base, dead, n, leased, out, last, asking, older = struct.unpack(HEADER, value)
  if fit == 3 then -- it is reset
    at, level, dead = now, 0, n
  end
end

-- The entries from `kept` on are in `tail` and will be written; those before it
-- are as they were read: `block` holds some, from byte `from` of the value on.
local stored, kept, tail, block, from = n, n, '', value, 0

-- range is the stored entries from i to before k.
local function range(i, k)
  local first, past = HEAD + i * ENTRY, HEAD + k * ENTRY
  if past <= #value then
    return value:sub(first + 1, past)
  end
  return redis.call('GETRANGE', KEYS[1], first, past - 1)
end

-- entry is the time after base, and the units, of entry i.
local function entry(i)
  if i >= kept then
    return struct.unpack('<I6H', tail, (i - kept) * ENTRY + 1)
  end
  local place = HEAD + i * ENTRY - from
  if place < 0 or place + ENTRY > #block then
    local first = i > 8 and i - 8 or 0
    from, block = HEAD + first * ENTRY, range(first, first + 32 < stored and first + 32 or stored)
    place = HEAD + i * ENTRY - from
  end
  return struct.unpack('<I6H', block, place + 1)
end

-- after is the index of the first live entry later than a time; n if none.
local function after(time)
  local lo, hi = dead, n
  if lo < hi and entry(hi - 1) <= time then
    lo = hi
  end
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    if entry(mid) > time then
      hi = mid
    else
      lo = mid + 1
    end
  end
  return lo
end

local function insert(time, units)
  local i, added = after(time), nil
  if i < kept then
    kept, tail = i, range(i, kept) .. tail
  end
  if units <= 65535 then
    added = struct.pack('<I6H', time, units)
    n = n + 1
  else
    local rest = (units - 1) % 65535 + 1
    local times = (units - rest) / 65535
    added = struct.pack('<I6H', time, 65535):rep(times) .. struct.pack('<I6H', time, rest)
    n = n + times + 1
  end
  local place = (i - kept) * ENTRY
  if place == #tail then
    tail = tail .. added
  else
    tail = tail:sub(1, place) .. added .. tail:sub(place + 1)
  end
  level = level + units
end

-- Move to now and drop what a trailing window no longer covers.
local wrong = at - now > period
if wrong or now + 2 * DAY - base >= 281474976710656 then
  -- A clock was wrong: what was charged is charged now, and the leases that lie
  -- ahead of the log lie as far ahead of now. Or the base is years ago, and times
  -- after it would soon not fit into six bytes.
  local by = wrong and at - base or at - period - base
  local to = {}
  for i = dead, n - 1 do
    local time, units = entry(i)
    to[#to + 1] = struct.pack('<I6H', time > by and time - by or 0, units)
  end
  dead, n, kept, tail = 0, #to, 0, table.concat(to)
  at, base = wrong and now or at, wrong and now or base + by
end
if now > at then
  at = now
end
local over = at - period - base
if dead < n and entry(n - 1) <= over then
  dead, level = n, 0
end
while dead < n do
  local time, units = entry(dead)
  if time > over then
    break
  end
  dead, level = dead + 1, level - units
end
if dead == n then
  base, dead, n, kept, tail = at, 0, 0, 0, ''
end

--@ askers

--@ returned
-- Settle what comes back, to the oldest entries of the lease's millisecond, and
-- what was admitted without asking.
if back > 0 then
  local ms = (now - now % 1000) / 1000
  local off = (lease - ms) % 4294967296
  if off >= 2147483648 then
    off = off - 4294967296
  end
  local first = (ms + off) * 1000 - base
  local i = after(first - 1)
  local most, k, left = back, i, ''
  back = 0
  while k < n and back < most do
    local time, units = entry(k)
    if time >= first + 1000 then
      break
    end
    local taken = math.min(units, most - back)
    if taken < units then
      left = struct.pack('<I6H', time, units - taken)
    end
    back, k = back + taken, k + 1
  end
  if back > 0 then
    if i < kept then
      kept, tail = i, range(i, kept) .. tail
    end
    tail = tail:sub(1, (i - kept) * ENTRY) .. left .. tail:sub((k - kept) * ENTRY + 1)
    n = n - (k - i) + #left / ENTRY
    level, leased = level - back, leased - back
  end
end
if debt > 0 and level < 2 * count then
  insert(at - base, level + debt < 2 * count and debt or 2 * count - level)
end

local rest = count > level and count - level or 0
if pause > 0 and n > dead and base + entry(n - 1) + pause > at then
  rest = 0
end
--@ decide
if not fits then
  if penal == 1 then
    if level < 2 * count then
      insert(at - base, level + need < 2 * count and need or 2 * count - level)
    end
    rest = 0
  end
elseif want > 0 and rest > 0 then
  granted = pause > 0 and need or size(waiting, want, rest, asking + older)
  if granted > 0 then
    lot, ttl = at, 2 * rest >= count and long or brief
    if granted > waiting then
      lot = at + ttl
    end
    insert(lot - base, granted)
    rest = pause == 0 and rest - granted or 0
  end
end
if fits and want > 0 and rest == 0 then
  short = 1
end
--@ lend

-- When will it fit? When the entry is over that makes enough room.
local newest = n > dead and base + entry(n - 1) or -366 * DAY
local retry = 0
local reset = level > 0 and newest + period - now or 0
if short > count then
  retry = NEVER
elseif short > 0 then
  -- It is one of the first, unless there is a debt: ever more are read at a time.
  local excess, i, many = level + short - count, dead, 1
  while excess > 0 and i < n do
    many = many < 128 and 2 * many or 128
    local to = i + many < n and i + many or n
    if i < kept and to > kept then
      to = kept
    end
    local some = i < kept and range(i, to) or tail:sub((i - kept) * ENTRY + 1, (to - kept) * ENTRY)
    some = { struct.unpack('<' .. ('I6H'):rep(to - i), some) }
    for k = 2, 2 * (to - i), 2 do
      excess = excess - some[k]
      if excess <= 0 then
        retry = some[k - 1] + base + period - now
        break
      end
    end
    i = to
  end
  if pause > 0 and newest + pause > at and newest + pause - now > retry then
    retry = newest + pause - now
  end
end

if known or asked == 1 then
  local keep = out - now > reset and out - now or reset
  local lasts, whole = false, not known
  if known and kept < n then
    whole = #value < SHORT or kept <= dead or dead >= RECLAIM and 2 * dead >= n
  end
  if whole then
    local live = kept > dead and range(dead, kept) or ''
    tail = live .. tail:sub(dead > kept and (dead - kept) * ENTRY + 1 or 1)
    n, dead = n - dead, 0
  end
  local header = struct.pack(HEADER, VERSION, at, level, base, dead, n, leased, out, last, asking, older)
  if whole then
    local new = header .. tail
    value = known and value
    --@ save
  else -- into what is there; the first is not rejected for lack of memory, see save
    if kept < n then
      redis.call('PEXPIRE', KEYS[1], (keep - keep % 1000) / 1000 + 1001)
      redis.call('SETRANGE', KEYS[1], HEAD + kept * ENTRY, tail)
    end
    local done = redis.pcall('SETRANGE', KEYS[1], 0, header)
    if type(done) == 'table' then
      redis.call('PEXPIRE', KEYS[1], (keep - keep % 1000) / 1000 + 1001)
      redis.call('SETRANGE', KEYS[1], 0, header)
    end
  end
end

--@ answer
