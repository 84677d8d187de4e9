package descriptor

import "slices"

// Load reads a directory and parses what is in it.
func Load(dir string, o Options) (*Config, error) {
	files, err := Read(dir)
	if err != nil {
		return nil, err
	}
	return Parse(files, o)
}

// Domains are the names of the domains in the order of the files.
func (c *Config) Domains() (names []string) {
	for _, n := range c.order {
		names = append(names, n.Key)
	}
	return names
}

// SharesThreshold reports whether the wildcard of a level has one counter for all values.
func (r *Rule) SharesThreshold() bool {
	return slices.ContainsFunc(r.levels, func(l *Level) bool { return l.Shared })
}
