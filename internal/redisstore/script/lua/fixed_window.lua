-- Fixed window: internal/limit/fixed_window.go, and lease.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the next, units
-- out on lease, until when, and of which window; askers if there are any.

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local at, level, ahead, leased, out, lent = 0, 0, 0, 0, 0, 0
local last, asking, before = 0, 0, 0
if known then
  local _
  _, at, level, ahead, leased, out, lent = struct.unpack('<BI7I5I5I5I7I7', value)
  if #value > 37 then
    last, asking, before = struct.unpack('<I6I4I4', value, 38)
  end
end

-- Move to the window of now. A key in which something is charged lasts as long as
-- its window anyway.
local lasts = level > 0
if at - now > period then -- a clock was wrong
  lasts = false
  at = first == 1 and now or now - now % period
elseif now - at >= period then
  lasts = false
  if first == 1 then -- there is none until something is charged
    at, level, ahead = 0, 0, 0
  else
    local start = now - now % period
    level = start == at + period and ahead or 0
    at, ahead = start, 0
  end
end

--@ askers
-- Settle what comes back and what was admitted without asking.
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and unused <= 2 * count and leased > 0 then
  local back = unused < leased and unused or leased
  if (at - at % 1000) / 1000 % 4294967296 == lease then
    back = back < level and back or level
    level = level - back
  elseif (at + period) / 1000 % 4294967296 == lease then
    back = back < ahead and back or ahead
    ahead = ahead - back
  else
    back = 0
  end
  leased = leased - back
end
if debt > 0 then
  if at == 0 and first == 1 then
    at = now
  end
  if level < 2 * count then
    level = level + debt < 2 * count and level + debt or 2 * count
  end
end

-- Decide. What nobody waits for may be of the next window.
local rest = count > level and count - level or 0
rest = rest > withheld and rest - withheld or 0
local fits = need <= rest
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local granted, lot, starts, ttl, short = 0, 0, 0, 0, 0
if not fits then
  short = need
  if penal == 1 then
    if at == 0 and first == 1 then
      at = now
    end
    if level < 2 * count then
      level = level + need < 2 * count and level + need or 2 * count
    end
    rest = 0
  end
elseif want > 0 then
  if need == 0 and lead > 0 and first == 0 and at + period - now <= lead then
    local left = count > ahead and count - ahead or 0
    left = left > withheld and left - withheld or 0
    granted = size(waiting, want, left, asking + before)
    if granted > 0 then
      lasts = lasts and ahead > 0
      ahead, lot = ahead + granted, at + period
      starts = lot - now
      ttl = 2 * left >= count and long or brief
      ttl = starts + (ttl < period and ttl or period)
    end
  end
  if granted == 0 then
    granted = size(waiting, want, rest, asking + before)
    if granted > 0 then
      if at == 0 and first == 1 then
        at = now
      end
      lot, ttl = at, 2 * rest >= count and long or brief
      if ttl > at + period - now then
        ttl = at + period - now
      end
      rest, level = rest - granted, level + granted
    end
    short = rest == 0 and 1 or 0
  end
end
if granted > 0 then
  leased = lot > lent and 0 or leased
  lent = lot
  --@ lend
end

local retry, reset = 0, 0
if short <= count - level then -- it is only withheld
  short = 0
end
if short > count then
  retry = NEVER
elseif short > 0 then
  retry = at + (short > count - ahead and 2 or 1) * period - now
end
if ahead > 0 then
  reset = at + 2 * period - now
elseif level > 0 or first == 1 and at > 0 then
  reset = at + period - now
end

local new = struct.pack('<BI7I5I5I5I7I7', VERSION, at, level, ahead, leased, out, lent)
