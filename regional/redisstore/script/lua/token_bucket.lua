-- Token bucket: internal/limit/token_bucket.go, and lease.Counter.Acquire.
--
-- Value: version, time, credit, what a token costs (see the argument coin), units
-- out on lease, and until when.

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
local at, level, leased, out = now, full, 0, 0

-- Refill.
if known then
  local _, paid
  _, at, level, paid, leased, out = struct.unpack('<BI7i7I3I5I7', value)
  if paid ~= coin then -- the count was changed: keep whole tokens
    local old = paid < 8388608 and paid or period / (paid - 8388608)
    local burst = full / cost
    level = math.max(-burst, math.min(math.floor(level / old), burst)) * cost
  end
  level = math.max(-full, math.min(level, full))
  if now >= at then
    local elapsed = now - at
    elapsed = (elapsed - elapsed % unit) / unit
    local gain = math.min(elapsed, fill) * rate
    if gain >= full - level then
      at, level = now, full
    else
      at, level = at + elapsed * unit, level + gain
    end
  elseif at - now > period then -- a clock was wrong
    at = now
  end
end

-- Settle what comes back and what was admitted without asking.
if now >= out + MINUTE then
  leased = 0
end
if unused > 0 and leased > 0 then
  local room = full - level
  room = (room - room % cost) / cost
  local back = math.min(unused, leased)
  if back > room then
    back, level = room, full
  else
    level = level + back * cost
  end
  leased = leased - back
  if level == full and now >= at then
    at = now
  end
end
local function charge(units)
  local room = level + full
  if units > (room - room % cost) / cost then
    level = -full
  else
    level = level - units * cost
  end
end
if overdrawn > 0 then
  charge(overdrawn)
end
if denied > 0 then
  charge(denied)
end

-- Decide.
local tokens = math.max(level, 0)
tokens = (tokens - tokens % cost) / cost
local fits = need <= tokens
if fit == 1 and fits then
  need, waiting, want = 0, 0, 0
end
local granted, ttl, short = 0, 0, 0
if not fits then
  short = need
  if penal == 1 then
    charge(need)
    tokens = math.max(level, 0)
    tokens = (tokens - tokens % cost) / cost
  end
elseif want > 0 then
  if tokens > 0 then
    granted = math.min(want, tokens)
    ttl = math.min(2 * tokens >= count and long or brief, longest)
    level = level - granted * cost
    leased = math.min(leased + granted, 2 * count)
    out = math.max(out, now)
    if granted > waiting and exact == 0 then
      out = math.max(out, now + ttl)
    end
  else
    short = 1
  end
end

-- wait is how long until there are so many tokens.
local function wait(units)
  if units > count then
    return NEVER
  end
  local missing = units * cost - level
  if missing <= 0 then
    return 0
  end
  missing = missing + rate - 1
  local k = (missing - missing % rate) / rate
  if k > 4503599627370496 / unit then
    return NEVER
  end
  return k * unit + at - now
end
local reset = wait(count)
local retry = short > 0 and wait(short) or 0

if known or asked > 0 then
  local keep = math.max(reset, out - now)
  local failed = save(KEYS[1], value,
    struct.pack('<BI7i7I3I5I7', VERSION, at, level, coin, leased, out),
    (keep - keep % 1000) / 1000 + 1001)
  if failed then
    return failed
  end
end
return struct.pack(REPLY, fits and 1 or 0, (leased > 0 and now < out) and 1 or 0,
  granted, tokens - granted, 0, 0, ttl, retry, reset)
