-- Token bucket: internal/limit/token_bucket.go, and granter.Counter.Acquire.
--
-- Value: version, time, credit, what a token costs (see the argument coin), units
-- out on lease, and until when; until when the key lasts, in seconds.

--@ debt

local CENTURY = 36525 * DAY -- longer than any key has to last

local value = redis.call('GET', KEYS[1])
local known = value and value:byte() == VERSION
--@ foreign
local at, level, leased, out, ends = now, full, 0, 0, 0

-- Refill.
if known then
  local _, paid
  _, at, level, paid, leased, out, ends = struct.unpack('<BI7i7I3I5I7I4', value)
  if fit == 3 then -- it is reset
    at, level, paid = now, full, coin
  end
  if paid ~= coin then -- the count was changed: keep whole tokens
    local old = paid < 8388608 and paid or period / (paid - 8388608)
    local burst = full / cost
    level = math.max(-burst, math.min(math.floor(level / old), burst)) * cost
  end
  if level > full then
    level = full
  elseif level < -full then
    level = -full
  end
  local elapsed = now - at
  if elapsed >= 0 then
    elapsed = (elapsed - elapsed % unit) / unit
    local gain = (elapsed < fill and elapsed or fill) * rate
    if gain >= full - level then
      at, level = now, full
    else
      at, level = at + elapsed * unit, level + gain
    end
  elseif -elapsed > period then -- a clock was wrong
    at = now
  end
end

--@ returned
-- Settle what comes back and what was admitted without asking.
if back > 0 then
  local room = full - level
  room = (room - room % cost) / cost
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
if debt > 0 then
  level = debt * cost > level + full and -full or level - debt * cost
end

local rest = level > 0 and (level - level % cost) / cost or 0
--@ decide
if not fits then
  if penal == 1 then
    level = need * cost > level + full and -full or level - need * cost
    rest = 0
  end
elseif want > 0 then
  if rest > 0 then
    granted = want < rest and want or rest
    ttl = 2 * rest >= count and long or brief
    if ttl > longest then
      ttl = longest
    end
    rest, level = rest - granted, level - granted * cost
  end
  short = rest == 0 and 1 or 0
end
--@ lend

-- When will it fit? The k-th unit of time after at is the first to bring what is
-- missing. (For the reset that is all of the bucket.)
local retry, reset = 0, 0
if short * cost <= level then -- it is only withheld
  short = 0
end
if short > count then
  retry = NEVER
elseif short > 0 then
  local missing = short * cost - level + rate - 1
  local k = (missing - missing % rate) / rate
  retry = k > 4503599627370496 / unit and NEVER or k * unit + at - now
end
if level < full then
  local missing = full - level + rate - 1
  local k = (missing - missing % rate) / rate
  reset = k > 4503599627370496 / unit and NEVER or k * unit + at - now
end

-- To set the time to live is a third of the cost of a write, so it is set to a
-- quarter and four seconds more than is needed, and not with every write.
if known or asked == 1 then
  local keep = out - now > reset and out - now or reset
  local spare = ends * 1000000 - now - keep
  local lasts = spare >= 1000000 and spare <= keep + 6000000
  if not lasts then
    keep = keep < CENTURY and keep + (keep - keep % 4) / 4 + 4000000 or CENTURY
    ends = (now + keep - now % 1000000) / 1000000
    ends = ends < 4294967295 and ends - ends % 1 or 0
  end
  local new = struct.pack('<BI7i7I3I5I7I4', VERSION, at, level, coin, leased, out, ends)
  --@ save
end
--@ block
--@ look
--@ paid
return struct.pack(REPLY, fits and 1 or 0, leased > 0 and now < out and 1 or 0,
  granted, rest, lot, starts, ttl, retry, reset, blocked)
