package descriptor

// Level is one level of the tree of a configuration, for those who want to see all of
// it: a domain, or a descriptor of a file.
type Level struct {
	Key, Value string // of a domain its name, and nothing
	Wildcard   bool   // the value has a *
	Shared     bool   // share_threshold
	Path       string // as Rule.Path
	File       string
	Line       int     // of a domain 0
	Rule       *Rule   // nil: no rate_limit here
	Below      []Level // in the order of the files
}

// Tree returns all levels, by their domains, in the order of the files.
func (c *Config) Tree() []Level { return levelsOf(c.order) }

func levelsOf(nodes []*node) []Level {
	levels := make([]Level, len(nodes))
	for i, n := range nodes {
		levels[i] = Level{
			Key: n.level.key, Value: n.level.value, Wildcard: n.level.wildcard, Shared: n.level.share,
			Path: n.path, File: n.file, Line: n.line, Rule: n.rule, Below: levelsOf(n.order),
		}
	}
	return levels
}
