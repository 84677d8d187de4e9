-- Remember the debt for a while after it was told last. Without memory for that it is
-- charged again when it is told again.
if KEYS[2] then
  redis.pcall('SET', KEYS[2], '', 'PX', told)
end
