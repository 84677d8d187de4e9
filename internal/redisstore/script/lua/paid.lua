-- Remember the debt for a while after it was told last. Without memory for that it is
-- charged again when it is told again.
if owing then
  redis.pcall('SET', owing, '', 'PX', told)
end
