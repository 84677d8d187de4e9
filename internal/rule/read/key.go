package read

import (
	"strconv"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/strict"
)

const (
	keyForms    = "[client_ip] for a limit per client, [] for one limit that all requests share"
	sourceForms = "client_ip, path, method, host, route, region, san, or { header: x-user-id }, and likewise query, cookie, segment, claim, metadata, label or const"
)

func (d *reader) key(v strict.Value) []rule.Part {
	var key []rule.Part
	for _, item := range v.List(rule.MaxParts, keyForms) {
		key = append(key, d.part(item))
	}
	return key
}

// part reads a part of a key and, behind it, its else.
func (d *reader) part(v strict.Value) rule.Part {
	var p rule.Part
	for v.Present() {
		if len(p) == rule.MaxSources {
			v.Fail("is one else too many; write at most " + strconv.Itoa(rule.MaxSources-1))
			break
		}
		s, next := d.source(v)
		p, v = append(p, s), next
	}
	return p
}

// source reads one source of a part and returns its else, if any. One that cannot
// be read becomes client_ip, in which nothing else can be wrong.
func (d *reader) source(v strict.Value) (rule.Source, strict.Value) {
	if v.Kind() == strict.String {
		return d.plainSource(v), v.Field("else")
	}
	if !v.Is(strict.Object, sourceForms) || !v.Object(partFields...) {
		return rule.Source{}, strict.Value{}
	}
	out, found := rule.Source{}, 0
	for _, name := range v.Names() {
		field, from := v.Field(name), rule.ParseWord[rule.From](name)
		switch {
		case name == "client_ip":
			out = d.clientIP(field)
		case from == rule.FromMetadata:
			out = metadata(field)
		case from.Named():
			text, _ := field.String("the name of a " + name)
			out = rule.Source{From: from, Name: text}
		case from == rule.FromHost, from == rule.FromSAN, from == rule.FromRoute, from == rule.FromRegion: // has room for an else
			if field.Kind() != strict.Object || len(field.Names()) > 0 {
				field.Fail("has no value; write " + name + " alone, or " + name + ": {} beside an else")
			}
			out = rule.Source{From: from}
		default:
			continue // else, or already reported
		}
		found++
	}
	if found != 1 && v.Ok() {
		v.Fail("has " + strconv.Itoa(found) + " sources; write one of " + sourceForms + ", and else for what to use without it")
	}
	return out, v.Field("else")
}

func (d *reader) plainSource(v strict.Value) rule.Source {
	text := v.Node().Text
	from := rule.ParseWord[rule.From](text)
	switch {
	case text == rule.FromClientIP.String():
		return d.client
	case from != rule.FromClientIP && !from.Named():
		return rule.Source{From: from}
	}
	if from.Named() {
		form := text + ": name"
		if from == rule.FromMetadata {
			form = text + ": " + metadataForm
		}
		v.Fail(strict.Quote(text) + " needs a name; write { " + form + " }")
		return rule.Source{}
	}
	reason := strict.Quote(text) + " is no key part; write " + sourceForms
	if near := strict.Nearest(text, rule.Words[rule.From]()); near != "" {
		reason += " (did you mean " + near + "?)"
	}
	v.Fail(reason)
	return rule.Source{}
}

const metadataForm = "{ namespace: io.envoy.ai_gateway, key: llm_model }"

// metadata reads { namespace, key }.
func metadata(v strict.Value) rule.Source {
	out := rule.Source{From: rule.FromMetadata}
	if v.Is(strict.Object, metadataForm) && v.Object(metadataFields...) {
		namespace, key := v.Field("namespace"), v.Field("key")
		if namespace.Require("the namespace of dynamic metadata") && key.Require("the key in the namespace") {
			space, _ := namespace.String("a namespace")
			name, _ := key.String("a key")
			out.Name = space + ":" + name
		}
	}
	return out
}

// clientIP reads { trusted_hops, ipv6_prefix } on top of the document's own.
func (d *reader) clientIP(v strict.Value) rule.Source {
	out := d.client
	if !v.Object(clientIPFields...) {
		return out
	}
	if hops := v.Field("trusted_hops"); hops.Present() {
		out.TrustedHops = int(integer(hops, check.HopsRange))
	}
	if prefix := v.Field("ipv6_prefix"); prefix.Present() {
		out.IPv6Prefix = int(integer(prefix, check.IPv6PrefixRange))
	}
	return out
}
