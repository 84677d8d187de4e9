-- What is granted is on lease until `out`.
if granted > 0 then
  if leased < 2 * count then -- by a larger count it may be more
    leased = leased + granted < 2 * count and leased + granted or 2 * count
  end
  local till = granted > waiting and exact == 0 and now + ttl or now
  if till > out then
    out = till
  end
end
