-- Sliding window: internal/limit/sliding_window.go, and lease.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the one before,
-- units out on lease, and until when; askers if there are any.

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
local at, level, prev, leased, out = 0, 0, 0, 0, 0
local last, asking, before = 0, 0, 0
if known then
  local _
  _, at, level, prev, leased, out = struct.unpack('<BI7I5I5I5I7', value)
  if #value > 30 then
    last, asking, before = struct.unpack('<I6I4I4', value, 31)
  end
end

-- Move to the window of now.
if at - now > period then -- a clock was wrong
  at = now - now % period
elseif now - at >= period then
  local start = now - now % period
  prev = start == at + period and level or 0
  at, level = start, 0
end

-- Settle who asks, what comes back and what was admitted without asking.
last, asking, before = noted((now - now % interval) / interval, fresh, last, asking, before)
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and leased > 0 then
  local back = math.min(unused, leased)
  if at / 1000 % 4294967296 == lease then
    back = math.min(back, level)
    level = level - back
  elseif (at - period) / 1000 % 4294967296 == lease then
    back = math.min(back, prev)
    prev = prev - back
  else
    back = 0
  end
  leased = leased - back
end
local function charge(units)
  level = math.max(level, math.min(level + units, 2 * count))
end
if overdrawn > 0 then
  charge(overdrawn)
end
if denied > 0 then
  charge(denied)
end

-- remaining weighs the window before by what a trailing window covers of it.
local function remaining()
  local rest = count - level
  if prev > 0 and rest > 0 then
    local gone = math.max(0, now - at)
    local weight = math.min(prev, 2 * count) * (periods - (gone - gone % unit) / unit) + periods - 1
    rest = rest - (weight - weight % periods) / periods
  end
  return math.max(0, rest)
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
    granted = waiting
    if want > waiting then
      local askers = 2 * math.max(asking + before, 1)
      granted = math.max(granted, (rest - rest % askers) / askers)
    end
    granted = math.min(want, rest, granted)
    if granted > 0 then
      level = level + granted
      lot = at
      ttl = math.min(2 * rest >= count and long or brief, at + period - now)
      leased = math.min(leased + granted, 2 * count)
      out = math.max(out, now)
      if granted > waiting and exact == 0 then
        out = math.max(out, now + ttl)
      end
    end
  else
    short = 1
  end
end

-- When will it fit? Until then the window before has faded, or this one has after
-- the next flip.
local retry, reset = 0, 0
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

if known or asked > 0 then
  local keep = math.max(reset, out - now)
  local new = struct.pack('<BI7I5I5I5I7', VERSION, at, level, prev, leased, out)
  if asking > 0 or before > 0 then
    new = new .. struct.pack('<I6I4I4', last, asking, before)
  end
  local failed = save(KEYS[1], value, new, (keep - keep % 1000) / 1000 + 1001)
  if failed then
    return failed
  end
end
return struct.pack(REPLY, fits and 1 or 0, (leased > 0 and now < out) and 1 or 0,
  granted, rest - granted, lot, 0, ttl, retry, reset)
