-- Fixed window: internal/limit/fixed_window.go, and granter.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the next, units
-- out on lease, until when, and of which window; askers if there are any.

--@ debt
--@ size

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local at, level, side, leased, out, lent = 0, 0, 0, 0, 0, 0
local last, asking, older = 0, 0, 0
if known then
  local _
  _, at, level, side, leased, out, lent = struct.unpack('<BI7I5I5I5I7I7', value)
  if fit == 3 then -- it is reset
    at, level, side = 0, 0, 0
  end
  if #value > 37 then
    last, asking, older = struct.unpack('<I6I4I4', value, 38)
  end
end

-- Move to the window of now. A key in which something is charged lasts as long as
-- its window anyway.
local lasts = level > 0
local following = period -- the length of the next window
if first == 2 then
  --@ calendar
elseif at - now > period then -- a clock was wrong
  lasts = false
  at = first == 1 and now or now - now % period
elseif now - at >= period then
  lasts = false
  if first == 1 then -- there is none until something is charged
    at, level, side = 0, 0, 0
  else
    local start = now - now % period
    level = start == at + period and side or 0
    at, side = start, 0
  end
end

-- The window in which the next charge falls.
local begins = at == 0 and first == 1 and now or at
local other = at + period

--@ askers
--@ settle_window

local rest = count > level and count - level or 0
--@ decide
if not fits then
  --@ penalize_window
elseif want > 0 then
  -- What nobody waits for may be of the next window.
  if need == 0 and lead > 0 and first ~= 1 and other - now <= lead then
    local left = count > side and count - side or 0
    left = left > withheld and left - withheld or 0
    granted = size(waiting, want, left, asking + older)
    if granted > 0 then
      lasts = lasts and side > 0
      side, lot = side + granted, other
      starts = lot - now
      ttl = 2 * left >= count and long or brief
      ttl = starts + (ttl < following and ttl or following)
    end
  end
  if granted == 0 then
    --@ grant_window
  end
end
if granted > 0 and lot > lent then
  leased, lent = 0, lot
end
--@ lend

local retry, reset = 0, 0
if short <= count - level then -- it is only withheld
  short = 0
end
if short > count then
  retry = NEVER
elseif short > 0 then
  retry = at + period + (short > count - side and following or 0) - now
end
if side > 0 then
  reset = at + period + following - now
elseif level > 0 or first == 1 and at > 0 then
  reset = at + period - now
end

local new = struct.pack('<BI7I5I5I5I7I7', VERSION, at, level, side, leased, out, lent)

--@ keep
if side > 0 then -- the answer states the end of the running window
  reset = at + period - now
end
--@ answer
