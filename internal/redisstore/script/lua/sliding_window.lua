-- Sliding window: internal/limit/sliding_window.go, and lease.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the one before,
-- units out on lease, and until when; askers if there are any.

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local at, level, prev, leased, out = 0, 0, 0, 0, 0
local last, asking, before = 0, 0, 0
if known then
  local _
  _, at, level, prev, leased, out = struct.unpack('<BI7I5I5I5I7', value)
  if #value > 30 then
    last, asking, before = struct.unpack('<I6I4I4', value, 31)
  end
end

-- Move to the window of now. A key in which something is charged lasts as long as
-- that counts anyway.
local lasts = level > 0
if at - now > period then -- a clock was wrong
  lasts = false
  at = now - now % period
elseif now - at >= period then
  lasts = false
  local start = now - now % period
  prev = start == at + period and level or 0
  at, level = start, 0
end

--@ askers

-- Settle what comes back and what was admitted without asking.
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and unused <= 2 * count and leased > 0 then
  local back = unused < leased and unused or leased
  if at / 1000 % 4294967296 == lease then
    back = back < level and back or level
    level = level - back
  elseif (at - period) / 1000 % 4294967296 == lease then
    back = back < prev and back or prev
    prev = prev - back
  else
    back = 0
  end
  leased = leased - back
end
if debt > 0 and level < 2 * count then
  level = level + debt < 2 * count and level + debt or 2 * count
end

-- What the window before still weighs, by how much of it a trailing window covers.
local past = 0
if prev > 0 then
  local gone = now > at and now - at or 0
  past = prev < 2 * count and prev or 2 * count
  past = past * (periods - (gone - gone % unit) / unit) + periods - 1
  past = (past - past % periods) / periods
end

-- Decide.
local rest = count > level + past and count - level - past or 0
rest = rest > withheld and rest - withheld or 0
local fits = need <= rest
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local granted, lot, starts, ttl, short = 0, 0, 0, 0, 0
if not fits then
  short = need
  if penal == 1 then
    if level < 2 * count then
      level = level + need < 2 * count and level + need or 2 * count
    end
    rest = 0
  end
elseif want > 0 then
  granted = size(waiting, want, rest, asking + before)
  if granted > 0 then
    lot, ttl = at, 2 * rest >= count and long or brief
    if ttl > at + period - now then
      ttl = at + period - now
    end
    rest, level = rest - granted, level + granted
    --@ lend
  end
  short = rest == 0 and 1 or 0
end

-- When will it fit? Until then the window before has faded, or this one has after
-- the next flip.
local retry, reset = 0, 0
if short <= count - level - past then -- it is only withheld
  short = 0
end
if short > count then
  retry = NEVER
elseif short > 0 then
  local room, faded, ends = count - level - short, prev, at + period
  if room < 0 then
    room, faded, ends = count - short, level, at + 2 * period
  end
  faded = math.min(faded, 2 * count)
  room = room * periods
  retry = ends - (room - room % faded) / faded * unit - now
end
if level > 0 then
  reset = at + 2 * period - now
elseif prev > 0 then
  reset = at + period - now
end

local new = struct.pack('<BI7I5I5I5I7', VERSION, at, level, prev, leased, out)
