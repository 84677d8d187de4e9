-- Remember the debt for a while after it was reported last. Without memory for that it is
-- charged again when it is reported again.
if owing then
  redis.pcall('SET', owing, '', 'PX', paid_ms)
end
