-- Fixed window: internal/limit/fixed_window.go, and lease.Counter.Acquire.
--
-- Value: version, start of the window, units charged in it and in the next, units
-- out on lease, until when, and of which window; askers if there are any.

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
local at, level, ahead, leased, out, lent = 0, 0, 0, 0, 0, 0
local last, asking, before = 0, 0, 0
if known then
  local _
  _, at, level, ahead, leased, out, lent = struct.unpack('<BI7I5I5I5I7I7', value)
  if #value > 37 then
    last, asking, before = struct.unpack('<I6I4I4', value, 38)
  end
end

-- Move to the window of now.
if at - now > period then -- a clock was wrong
  at = first == 1 and now or now - now % period
elseif now - at >= period then
  if first == 1 then -- there is none until something is charged
    at, level, ahead = 0, 0, 0
  else
    local start = now - now % period
    level = start == at + period and ahead or 0
    at, ahead = start, 0
  end
end
local function charge(units)
  if at == 0 and units > 0 and first == 1 then
    at = now
  end
  level = math.max(level, math.min(level + units, 2 * count))
end

-- Settle who asks, what comes back and what was admitted without asking.
last, asking, before = noted((now - now % interval) / interval, fresh, last, asking, before)
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and leased > 0 then
  local back = math.min(unused, leased)
  local id, following = at, at + period
  if (id - id % 1000) / 1000 % 4294967296 == lease then
    back = math.min(back, level)
    level = level - back
  elseif (following - following % 1000) / 1000 % 4294967296 == lease then
    back = math.min(back, ahead)
    ahead = ahead - back
  else
    back = 0
  end
  leased = leased - back
end
if overdrawn > 0 then
  charge(overdrawn)
end
if denied > 0 then
  charge(denied)
end

-- Decide. What nobody waits for may be of the next window.
local rest = math.max(0, count - level)
local fits = need <= rest
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local function size(left)
  local units = waiting
  if want > waiting then
    local askers = 2 * math.max(asking + before, 1)
    units = math.max(units, (left - left % askers) / askers)
  end
  return math.min(want, left, units)
end
local granted, lot, starts, ttl, short = 0, 0, 0, 0, 0
if need == 0 and want > 0 and lead > 0 and first == 0 and at + period - now <= lead then
  local left = math.max(0, count - ahead)
  granted = size(left)
  if granted > 0 then
    ahead = ahead + granted
    lot = at + period
    starts = lot - now
    ttl = starts + math.min(2 * left >= count and long or brief, period)
  end
end
local left = rest
if granted == 0 then
  if not fits then
    short = need
    if penal == 1 then
      charge(need)
      left = math.max(0, count - level)
    end
  elseif want > 0 then
    if rest > 0 then
      granted = size(rest)
      if granted > 0 then
        charge(granted)
        lot = at
        ttl = math.min(2 * rest >= count and long or brief, at + period - now)
        left = rest - granted
      end
    else
      short = 1
    end
  end
end
if granted > 0 then
  if lot > lent then
    leased = 0
  end
  leased = math.min(leased + granted, 2 * count)
  lent = lot
  out = math.max(out, now)
  if granted > waiting and exact == 0 then
    out = math.max(out, now + ttl)
  end
end

local retry, reset = 0, 0
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

if known or asked > 0 then
  local keep = math.max(reset, out - now)
  local new = struct.pack('<BI7I5I5I5I7I7', VERSION, at, level, ahead, leased, out, lent)
  if asking > 0 or before > 0 then
    new = new .. struct.pack('<I6I4I4', last, asking, before)
  end
  local failed = save(KEYS[1], value, new, (keep - keep % 1000) / 1000 + 1001)
  if failed then
    return failed
  end
end
return struct.pack(REPLY, fits and 1 or 0, (leased > 0 and now < out) and 1 or 0,
  granted, left, lot, starts, ttl, retry, reset)
