package expr

import (
	"slices"
	"strings"
	"testing"
)

// suggested returns the suggestions at the | of an expression as "name type", or "name signature".
func suggested(e *Env, source string) (out []string, from int) {
	at := strings.IndexByte(source, '|')
	all, from := e.Suggest(source[:at]+source[at+1:], at)
	for _, s := range all {
		out = append(out, strings.TrimSpace(s.Name+" "+s.Type+strings.Join(s.Signatures, "; ")))
	}
	return out, from
}

func TestSuggestions(t *testing.T) {
	e := testEnv(t)
	for _, test := range []struct {
		source       string
		has, hasNone []string
	}{
		{"|", []string{"schema object", "vpc object", "has has(field)", "hash.sha256 hash.sha256(string) → bytes"}, []string{"join"}},
		{"schema.spec.na|", []string{"name string", "replicas int", "tags list(string)", "env map(string, string)"}, []string{"schema", "join", "filter"}},
		{"schema.spec|", []string{"spec object", "metadata object"}, []string{"name string"}},
		{"schema.spec.tags.|", []string{"join list(string).join() → string; list(string).join(string) → string", "map map(item, value)"}, []string{"startsWith"}},
		{"schema.spec.name.|", []string{"startsWith string.startsWith(string) → bool"}, []string{"join", "map"}},
		{"schema.spec.tags[0].|", []string{"startsWith string.startsWith(string) → bool"}, nil},
		{"hash.|", []string{"sha256 hash.sha256(string) → bytes"}, []string{"schema object"}},
		{"cel.|", []string{"bind cel.bind(name, value, result)"}, nil},
		{"'a' + (schema.spec.enabled && schema.metadata.|", []string{"name string", "labels map(string, string)"}, nil},
		{"schema.spec.tags.map(t, t.|", []string{"startsWith string.startsWith(string) → bool"}, nil},
		{"schema.spec.tags.map(t, |", []string{"t string", "schema object"}, nil},
		{"schema.spec.env.map(k, k.|", []string{"startsWith string.startsWith(string) → bool"}, nil},
		{"schema.spec.env.transformList(k, v, {'a': v.|", []string{"startsWith string.startsWith(string) → bool"}, nil},
		{"cel.bind(x, schema.spec, x.|", []string{"replicas int"}, nil},
		{"schema.?spec.|", []string{"name string"}, nil},
		{"schema.?spec.?na|", []string{"name string"}, nil},
		{"[schema.spec, schema.spec].filter(s, s.enabled)[0].|", []string{"name string"}, nil},
		{"'schema.|", nil, []string{"spec object"}},
		{"missing.|", nil, []string{"startsWith string.startsWith(string) → bool"}},
		{"1|", nil, []string{"schema object"}},
	} {
		got, from := suggested(e, test.source)
		for _, want := range test.has {
			if !slices.Contains(got, want) {
				t.Errorf("%s: %q is not in %q", test.source, want, got)
			}
		}
		for _, not := range test.hasNone {
			if slices.ContainsFunc(got, func(s string) bool { return s == not || strings.HasPrefix(s, not+" ") }) {
				t.Errorf("%s: %q is in %q", test.source, not, got)
			}
		}
		if before, _, _ := strings.Cut(test.source, "|"); strings.ContainsAny(before[from:], ". ") {
			t.Errorf("%s: the name begins at %d", test.source, from)
		}
	}
}

func TestDescriptions(t *testing.T) {
	e := testEnv(t)
	for source, want := range map[string]string{
		"sch|ema.spec.name":                       "schema variable object with metadata, spec ref schema",
		"schema.spec.na|me + 'x'":                 "name field string ref schema.spec.name",
		"schema.spec.ta|gs.join(',')":             "tags field list(string) ref schema.spec.tags",
		"schema.spec.tags.jo|in(',')":             "join function list(string).join() → string; list(string).join(string) → string",
		"schema.spec.tags.ma|p(t, t)":             "map macro map(item, value)",
		"hash.sha|256(schema.spec.name)":          "sha256 function hash.sha256(string) → bytes",
		"schema.spec.tags.map(t, t|)":             "t variable string",
		"schema.spec.name == 'schema.sp|ec'":      "",
		"schema.spec.non|e":                       "",
		"vpc.status.|":                            "",
		"schema.spec.replicas > 1 && vpc.sta|tus": "status field object with conditions, extra, id, privateSubnet1ID, privateSubnet2ID, routes, subnets, zones ref vpc.status",
	} {
		at := strings.IndexByte(source, '|')
		d, ok := e.Describe(source[:at]+source[at+1:], at)
		got := ""
		if ok {
			got = strings.TrimSpace(strings.Join([]string{d.Name, string(d.Kind), d.Type + strings.Join(d.Signatures, "; ")}, " "))
			if d.Ref.Root != "" {
				got += " ref " + d.Ref.String()
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

func FuzzSuggest(f *testing.F) {
	for _, s := range []string{"schema.spec.tags.map(t, t.", "a[?'b'].?c", "r'\\' + \"", "cel.bind(x, {'a': [1]}, x."} {
		f.Add(s, len(s))
	}
	e := testEnv(f)
	f.Fuzz(func(t *testing.T, source string, at int) {
		if _, from := e.Suggest(source, at); from < 0 || from > len(source) {
			t.Errorf("%q: %d", source, from)
		}
		if d, _ := e.Describe(source, at); d.From < 0 || d.To > len(source) || d.From > d.To {
			t.Errorf("%q: %d to %d", source, d.From, d.To)
		}
	})
}
