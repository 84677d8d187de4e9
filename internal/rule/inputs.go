package rule

import (
	"regexp"
	"slices"
	"strings"
)

// inputs collects what the rules that are not off look at.
func inputs(rules []Rule) Inputs {
	in := Inputs{}
	for i := range rules {
		if r := &rules[i]; r.Mode != Off {
			in.match(r.Match)
			in.header(r.Cost.Header)
			for _, v := range r.Limits {
				in.match(v.When)
			}
			for _, p := range r.Key {
				in.part(p)
			}
		}
	}
	slices.Sort(in.Headers)
	in.Headers = slices.Compact(in.Headers)
	return in
}

func (in *Inputs) match(m Match) {
	in.Method = in.Method || len(m.Methods) > 0
	in.Host = in.Host || len(m.Hosts) > 0
	in.Path = in.Path || len(m.Paths) > 0
	for _, h := range m.Headers {
		in.header(h.Name)
	}
}

func (in *Inputs) part(p Part) {
	for _, s := range p {
		switch s.From {
		case FromHeader:
			in.header(s.Name)
		case FromPath, FromQuery:
			in.Path = true
		case FromMethod:
			in.Method = true
		case FromClientIP:
			in.Peer = true
			if s.TrustedHops > 0 {
				in.header(forwardedFor)
			}
		}
	}
}

const forwardedFor = "x-forwarded-for"

func (in *Inputs) header(name string) {
	if name != "" {
		in.Headers = append(in.Headers, name)
	}
}

func (in *Inputs) compile(r *Rule) compiled {
	c := compiled{match: in.matcher(r.Match), cost: cost{r.Cost, -1}}
	if r.Cost.Header != "" {
		c.cost.header = in.Header(r.Cost.Header)
	}
	for _, v := range r.Limits[1:] {
		c.whens = append(c.whens, in.matcher(v.When))
	}
	for _, p := range r.Key {
		c.key = append(c.key, in.sources(p))
	}
	return c
}

func (in *Inputs) sources(p Part) part {
	out := make(part, len(p))
	for i, s := range p {
		out[i].Source = s
		switch {
		case s.From == FromHeader:
			out[i].header = in.Header(s.Name)
		case s.TrustedHops > 0:
			out[i].header = in.Header(forwardedFor)
		}
	}
	return out
}

func (in *Inputs) matcher(m Match) matcher {
	out := matcher{spelling: m.spelling(), methods: m.Methods, hosts: m.Hosts}
	if m.IgnoreCase {
		out.methods = nil
		for _, method := range m.Methods {
			out.methods = append(out.methods, strings.ToLower(method))
		}
	}
	for _, p := range m.Paths {
		out.paths = append(out.paths, p.compile(m.IgnoreCase))
	}
	for _, h := range m.Headers {
		out.headers = append(out.headers, header{index: in.Header(h.Name), text: h.Text.compile(false)})
	}
	return out
}

func (t Text) compile(ignoreCase bool) text {
	arg := []byte(t.Arg)
	if ignoreCase {
		lower(arg)
	}
	out := text{op: t.Op, arg: string(arg)}
	switch {
	case t.Op == OpTemplate:
		out.template = segments(out.arg)
	case t.Op == OpRegex && ignoreCase:
		out.re = regexp.MustCompile("(?i)" + whole(t.Arg)) // checked
	case t.Op == OpRegex:
		out.re = regexp.MustCompile(whole(t.Arg)) // checked
	}
	return out
}

// whole makes a regular expression match the whole string.
func whole(re string) string { return `\A(?:` + re + `)\z` }
