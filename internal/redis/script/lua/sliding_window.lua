-- Sliding window: internal/limit/sliding_window.go, and granter.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the one before,
-- units out on lease, and until when; askers if there are any.

--@ debt
--@ size

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local at, level, side, leased, out = 0, 0, 0, 0, 0
local last, asking, older = 0, 0, 0
if known then
  local _
  _, at, level, side, leased, out = struct.unpack('<BI7I5I5I5I7', value)
  if fit == 3 then -- it is reset
    at, level, side = 0, 0, 0
  end
  if #value > 30 then
    last, asking, older = struct.unpack('<I6I4I4', value, 31)
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
  side = start == at + period and level or 0
  at, level = start, 0
end

local begins, other = at, at - period

--@ askers
local lent -- units of both windows may be
--@ settle_window

-- What the window before still weighs, by how much of it a trailing window covers.
local past = 0
if side > 0 then
  local gone = now > at and now - at or 0
  past = side < 2 * count and side or 2 * count
  past = past * (periods - (gone - gone % unit) / unit) + periods - 1
  past = (past - past % periods) / periods
end

local rest = count > level + past and count - level - past or 0
--@ decide
if not fits then
  --@ penalize_window
elseif want > 0 then
  --@ grant_window
end
--@ lend

-- When will it fit? Until then the window before has faded, or this one has after
-- the next flip.
local retry, reset = 0, 0
if short <= count - level - past then -- it is only withheld
  short = 0
end
if short > count then
  retry = NEVER
elseif short > 0 then
  local room, faded, ends = count - level - short, side, at + period
  if room < 0 then
    room, faded, ends = count - short, level, at + 2 * period
  end
  faded = math.min(faded, 2 * count)
  room = room * periods
  retry = ends - (room - room % faded) / faded * unit - now
end
if level > 0 then
  reset = at + 2 * period - now
elseif side > 0 then
  reset = at + period - now
end

local new = struct.pack('<BI7I5I5I5I7', VERSION, at, level, side, leased, out)

--@ keep
--@ answer
