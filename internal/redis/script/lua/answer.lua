--@ block
--@ look
--@ paid
return struct.pack(REPLY, fits and 1 or 0, leased > 0 and now < out and asking + older > 2 and 1 or 0,
  granted, rest, lot, starts, ttl, retry, reset, blocked)
