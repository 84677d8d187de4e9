package check

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/shed"
)

// shed checks a rule that has it in place of a limit.
func (c *checker) shed(r *rule.Rule) {
	c.reject(percents(&r.Match), "match", "percent selects keys, and a shed rule has no limit for a key; leave percent out")
	c.key(r)
	c.response(r)
	for i := range r.Shed.Classes {
		when, at := &r.Shed.Classes[i].When, strict.Index("shed.classes", i)+".match"
		c.match(at, when)
		c.reject(when.Empty(), at, "is empty; write what the requests have, such as { path: /checkout }, or leave the class out: all others are normal")
		c.reject(percents(when), at, "percent selects keys, and a class selects requests; leave percent out")
	}
	for class := range shed.Critical {
		if share, above := r.Shed.Share(class), r.Shed.Share(class+1); share > above {
			c.add("shed.shares."+class.String(), strconv.FormatInt(share, 10)+" is more than that of "+(class+1).String()+", which matters more; write "+
				strconv.FormatInt(above, 10)+" or less", "shed.shares."+(class+1).String())
		}
	}
}

// normalShed gives a rule a copy of what it sheds by, in which what has several spellings has one.
func normalShed(r *rule.Rule) {
	if r.Shed == nil {
		return
	}
	own := *r.Shed
	own.Classes = slices.Clone(own.Classes)
	for i := range own.Classes {
		own.Classes[i].When = normalMatch(own.Classes[i].When)
	}
	r.Shed = &own
}
