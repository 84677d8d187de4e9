-- Sliding log: internal/limit/sliding_log.go and log.go, and lease.Counter.Acquire.
--
-- Value: version, time, units of the live entries, base, how many entries are over
-- and how many there are in all, units out on lease, and until when; askers; then
-- the entries by time, oldest first, 8 bytes each: time (after base) and units. A
-- charge of more units than two bytes hold is several entries of the same time.
-- Behind the last entry there may be rubbish.
--
-- A short log is read and replaced as a whole. Of a long one only what is needed
-- is read, and only what changed is written.

local HEADER, HEAD, ENTRY, MOST = '<BI7I5I7I4I4I5I7I6I4I4', 54, 8, 65535
local SHORT = 1024 -- bytes that are read at first
local RECLAIM = 32 -- the least dead front that is worth reclaiming, as in log.go

local value = redis.call('GETRANGE', KEYS[1], 0, SHORT - 1)
local known = value:byte() == VERSION
local long_log = known and #value == SHORT
local at, level, base, dead, n, leased, out = now, 0, now, 0, 0, 0, 0
local last, asking, before = 0, 0, 0
if known then
  local _
  _, at, level, base, dead, n, leased, out, last, asking, before = struct.unpack(HEADER, value)
end

-- The entries from `kept` on are in `tail` and will be written; those before it
-- are as they were read: `block` holds some, from byte `from` of the value on.
local stored, kept, tail, block, from = n, n, '', value, 0

local function range(i, k) -- the stored entries from i to before k
  local first, past = HEAD + i * ENTRY, HEAD + k * ENTRY
  if past <= #value then
    return value:sub(first + 1, past)
  end
  return redis.call('GETRANGE', KEYS[1], first, past - 1)
end

local function entry(i) -- its time after base, its units
  if i >= kept then
    return struct.unpack('<I6H', tail, (i - kept) * ENTRY + 1)
  end
  local place = HEAD + i * ENTRY - from
  if place < 0 or place + ENTRY > #block then
    local first = math.max(i - 8, 0)
    from = HEAD + first * ENTRY
    block = range(first, math.min(first + 32, stored))
    place = HEAD + i * ENTRY - from
  end
  return struct.unpack('<I6H', block, place + 1)
end

-- after is the index of the first live entry later than a time; n if none.
local function after(time)
  local lo, hi = dead, n
  if lo < hi and entry(hi - 1) <= time then
    return hi
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

local function open(i) -- brings the entries from i on into the tail
  if i < kept then
    tail = range(i, kept) .. tail
    kept = i
  end
end

local function insert(time, units)
  local i = after(time)
  open(i)
  local rest = units % MOST
  local added = struct.pack('<I6H', time, MOST):rep((units - rest) / MOST)
  if rest > 0 then
    added = added .. struct.pack('<I6H', time, rest)
  end
  local place = (i - kept) * ENTRY
  tail = tail:sub(1, place) .. added .. tail:sub(place + 1)
  n = n + #added / ENTRY
  level = level + units
end

-- rebase counts the times of all live entries from base + by on; what was before
-- that is at it.
local function rebase(by)
  open(dead)
  local to = {}
  for i = dead, n - 1 do
    local time, units = entry(i)
    to[#to + 1] = struct.pack('<I6H', math.max(0, time - by), units)
  end
  dead, n, kept, tail = 0, #to, 0, table.concat(to)
end

-- Move to now and drop what a trailing window no longer covers.
if at - now > period then -- a clock was wrong: what was charged is charged now
  rebase(at - base)
  at, base = now, now
end
at = math.max(at, now)
while dead < n do
  local time, units = entry(dead)
  if time > at - period - base then
    break
  end
  dead, level = dead + 1, level - units
end
if dead == n then
  base, dead, n, kept = at, 0, 0, 0
elseif at + 2 * DAY - base >= 281474976710656 then
  local by = at - period - base
  rebase(by)
  base = base + by
end

--@ askers

-- Settle what comes back and what was admitted without asking.
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and leased > 0 then -- to the oldest entries of the lease's millisecond
  local ms = (now - now % 1000) / 1000
  local off = (lease - ms) % 4294967296
  if off >= 2147483648 then
    off = off - 4294967296
  end
  local first = (ms + off) * 1000 - base
  local i = after(first - 1)
  local back, k, left = 0, i, nil
  while k < n and back < unused and back < leased do
    local time, units = entry(k)
    if time >= first + 1000 then
      break
    end
    local taken = math.min(units, unused - back, leased - back)
    if taken < units then
      left = struct.pack('<I6H', time, units - taken)
    end
    back, k = back + taken, k + 1
  end
  if back > 0 then
    open(i)
    tail = tail:sub(1, (i - kept) * ENTRY) .. (left or '') .. tail:sub((k - kept) * ENTRY + 1)
    n = n - (k - i) + (left and 1 or 0)
    level, leased = level - back, leased - back
  end
end
local function charge(units)
  units = math.max(level, math.min(level + units, 2 * count)) - level
  if units > 0 then
    insert(at - base, units)
  end
end
if debt > 0 then
  charge(debt)
end

local function newest() -- time of the last live entry, or long ago
  return n > dead and base + entry(n - 1) or -366 * DAY
end
local function remaining()
  if pause > 0 and newest() + pause > at then
    return 0
  end
  return math.max(0, count - level)
end

-- Decide.
local rest = remaining()
local fits = need <= rest
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local granted, lot, ttl, short = 0, 0, 0, 0
if not fits then
  short = need
  if penal == 1 then
    charge(need)
    rest = remaining()
  end
elseif want > 0 then
  if rest > 0 then
    granted = pause > 0 and need or size(waiting, want, rest, asking + before)
    if granted > 0 then
      lot, ttl = at, 2 * rest >= count and long or brief
      leased = math.min(leased + granted, 2 * count)
      out = math.max(out, now)
      if granted > waiting then
        lot = at + ttl
        if exact == 0 then
          out = math.max(out, now + ttl)
        end
      end
      insert(lot - base, granted)
      rest = remaining()
    end
  else
    short = 1
  end
end

-- When will it fit? When the entry is over that makes enough room.
local retry, reset = 0, 0
if short > count then
  retry = NEVER
elseif short > 0 then
  local excess, i, time, units = level + short - count, dead, now - base - period, 0
  while excess > 0 do
    time, units = entry(i)
    excess, i = excess - units, i + 1
  end
  retry = time + base + period
  if pause > 0 then
    retry = math.max(retry, newest() + pause)
  end
  retry = retry - now
end
if level > 0 then
  reset = newest() + period - now
end

-- Write.
local function refused(done)
  return type(done) == 'table' and done.err
end
if known or asked == 1 then
  local keep = math.max(reset, out - now)
  local shelf = (keep - keep % 1000) / 1000 + 1001
  local function header()
    return struct.pack(HEADER, VERSION, at, level, base, dead, n, leased, out, last, asking, before)
  end
  if known and kept == n then -- nothing but the header changed, or entries went
    local done = redis.pcall('SETRANGE', KEYS[1], 0, header())
    if refused(done) then -- see save
      redis.call('PEXPIRE', KEYS[1], shelf)
      redis.call('SETRANGE', KEYS[1], 0, header())
    end
  elseif long_log and kept > dead and (dead < RECLAIM or 2 * dead < n) then
    redis.call('PEXPIRE', KEYS[1], shelf)
    redis.call('SETRANGE', KEYS[1], HEAD + kept * ENTRY, tail)
    redis.call('SETRANGE', KEYS[1], 0, header())
  else
    local live = kept > dead and range(dead, kept) or ''
    local surplus = math.max(0, dead - kept) * ENTRY
    n, dead = n - dead, 0
    local new = header() .. live .. tail:sub(surplus + 1)
    value = known and value
    local lasts = false
  --@ save
  end
end
return struct.pack(REPLY, fits and 1 or 0, (leased > 0 and now < out) and 1 or 0,
  granted, rest, lot, 0, ttl, retry, reset)
