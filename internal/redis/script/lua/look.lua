-- look
-- Who looks reads what is out on lease in the place of what is granted.
if fit > 1 and leased > 0 and now < out then
  granted, ttl = leased < 4294967295 and leased or 4294967295, out - now
end
