package resolve_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/internal/composition/packages/resolve"
)

// registry has, for each source, its tags with the dependencies of each: "v1: b >=1, c sha256:0".
type registry map[string][]string

const digestA = "sha256:aaaa"

func (g registry) dependencies(ref resolve.Reference) (a resolve.Answer[[]resolve.Dependency]) {
	for _, line := range g[ref.Source] {
		tag, rest, _ := strings.Cut(line, ": ")
		switch {
		case tag != ref.Version:
			continue
		case rest == "unread":
			return a
		case strings.HasPrefix(rest, "!"):
			return resolve.Answer[[]resolve.Dependency]{Problem: rest[1:]}
		}
		a.Known = true
		for _, d := range strings.Split(rest, ", ") {
			if source, constraint, ok := strings.Cut(d, " "); ok {
				a.Value = append(a.Value, resolve.Dependency{Kind: "Provider", Source: source, Constraint: constraint})
			}
		}
	}
	return a
}

func (g registry) tags(source string) (a resolve.Answer[[]string]) {
	lines, ok := g[source]
	if !ok {
		return resolve.Answer[[]string]{Problem: "401 Unauthorized"}
	}
	for _, line := range lines {
		tag, _, _ := strings.Cut(line, ": ")
		if tag == "unlisted" {
			return resolve.Answer[[]string]{}
		}
		if tag != digestA {
			a.Value = append(a.Value, tag)
		}
	}
	a.Known = true
	return a
}

func TestResolution(t *testing.T) {
	cases := map[string]struct {
		packages string // "a@v1 b@v2*": the name is the source's; * for one that was installed as a dependency
		registry registry
		changes  []string
		problems map[string]string
		unlisted []string
		unknown  []string
	}{
		"nothing is needed": {packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0"}}},
		"the highest version in the range": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1"}, "b": {"v1.0.0", "v1.10.0", "v1.9.0", "v2.0.0-rc.1", "latest", "v3"}},
			changes: []string{"install b:v1.10.0 for Provider a"}, problems: map[string]string{"a": `missing dependencies: "b" (>=1)`},
		},
		"what is installed stays if it is in range": {
			packages: "a@v1.0.0 b@v1.0.0*", registry: registry{"a": {"v1.0.0: b >=1"}, "b": {"v1.0.0", "v1.1.0"}},
		},
		"all ranges at once": {
			packages: "a@v1.0.0 c@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1"}, "c": {"v1.0.0: b <1.5.0"}, "b": {"v1.0.0", "v1.4.0", "v1.5.0"}},
			changes:  []string{"install b:v1.4.0 for Provider a, Provider c"},
			problems: map[string]string{"a": `missing dependencies: "b" (>=1)`, "c": `missing dependencies: "b" (<1.5.0)`},
		},
		"a choice is taken back if a dependency of it contradicts another range": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1, c <2"}, "b": {"v1.0.0: c <2", "v2.0.0: c >=2"}, "c": {"v1.0.0", "v2.0.0"}},
			changes:  []string{"install b:v1.0.0 for Provider a", "install c:v1.0.0 for Provider a, b:v1.0.0"},
			problems: map[string]string{"a": `missing dependencies: "b" (>=1), "c" (<2)`},
		},
		"a dependency is upgraded, and downgraded, when the ranges move": {
			packages: "a@v2.0.0 b@v1.0.0* c@v1.0.0 d@v3.0.0*",
			registry: registry{"a": {"v2.0.0: b >=2"}, "b": {"v1.0.0", "v2.0.0"}, "c": {"v1.0.0: d <3"}, "d": {"v2.0.0", "v3.0.0"}},
			changes:  []string{"change b:v2.0.0 for Provider a", "change d:v2.0.0 for Provider c"},
			problems: map[string]string{
				"a": "incompatible dependencies: existing package b@v1.0.0 is incompatible with constraint >=2",
				"c": "incompatible dependencies: existing package d@v3.0.0 is incompatible with constraint <3",
			},
		},
		"the version that a user has installed is never changed, and the conflict names the parent": {
			packages: "b@v1.0.0 a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=2"}, "b": {"v1.0.0", "v2.0.0"}},
			problems: map[string]string{"a": "incompatible dependencies: Provider b has version v1.0.0 of b: Provider a needs >=2"},
		},
		"the newer of two packages in conflict is left out, and others are not affected": {
			packages: "a@v1.0.0 c@v1.0.0 e@v1.0.0",
			registry: registry{"a": {"v1.0.0: b >=2"}, "c": {"v1.0.0: b <2"}, "e": {"v1.0.0: f *"}, "b": {"v1.0.0", "v2.0.0"}, "f": {"v1.0.0"}},
			changes:  []string{"install b:v2.0.0 for Provider a", "install f:v1.0.0 for Provider e"},
			problems: map[string]string{
				"a": `missing dependencies: "b" (>=2)`, "e": `missing dependencies: "f" (*)`,
				"c": "incompatible dependencies: no version of b satisfies all: Provider a needs >=2, Provider c needs <2",
			},
		},
		"no version in the range": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=9"}, "b": {"v1.0.0"}},
			problems: map[string]string{"a": "Provider a needs b in >=9, and none of its 1 tags is a version in that range"},
		},
		"a range that is none": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b newest"}},
			problems: map[string]string{"a": `Provider a needs b in the version "newest", which is neither a range of versions nor a digest`},
		},
		"a digest": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b " + digestA}, "b": {digestA}},
			changes: []string{"install b@" + digestA + " for Provider a"}, problems: map[string]string{"a": `missing dependencies: "b" (sha256:aaaa)`},
		},
		"a digest and a range": {
			packages: "a@v1.0.0 c@v1.0.0", registry: registry{"a": {"v1.0.0: b " + digestA}, "c": {"v1.0.0: b >=1"}, "b": {"v1.0.0", digestA}},
			changes: []string{"install b@" + digestA + " for Provider a"},
			problems: map[string]string{
				"a": `missing dependencies: "b" (sha256:aaaa)`,
				"c": "incompatible dependencies: no version of b satisfies all: Provider a needs sha256:aaaa, Provider c needs >=1",
			},
		},
		"two packages of one source": {
			packages: "a@v1.0.0 other=a@v2.0.0 c@v1.0.0", registry: registry{"a": {"v1.0.0", "v2.0.0"}, "c": {"v1.0.0: a <2"}},
			problems: map[string]string{"other": "Provider a has the same source, a, and is older: delete one of the two"},
		},
		"a cycle affects its members only": {
			packages: "a@v1.0.0 b@v1.0.0 c@v1.0.0 d@v1.0.0",
			registry: registry{"a": {"v1.0.0: b *"}, "b": {"v1.0.0: a *"}, "c": {"v1.0.0: a *, e *"}, "d": {"v1.0.0"}, "e": {"v1.0.0"}},
			changes:  []string{"install e:v1.0.0 for Provider c"},
			problems: map[string]string{"a": "dependency cycle: a needs b needs a", "b": "dependency cycle: b needs a needs b", "c": `missing dependencies: "e" (*)`},
		},
		"tags that are not known yet are listed": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1"}, "b": {"unlisted"}}, unlisted: []string{"b"},
			problems: map[string]string{"a": `missing dependencies: "b" (>=1)`},
		},
		"a version is not installed before its dependencies are known": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1"}, "b": {"v1.0.0: unread"}}, unknown: []string{"b:v1.0.0"},
			problems: map[string]string{"a": `missing dependencies: "b" (>=1)`},
		},
		"a registry that refuses": {
			packages: "a@v1.0.0 c@v1.0.0", registry: registry{"a": {"v1.0.0: b >=1"}, "c": {"v1.0.0: !404 Not Found"}},
			unlisted: []string{"b"}, unknown: []string{"c:v1.0.0"},
			problems: map[string]string{
				"a": `missing dependencies: "b" (>=1): cannot list its tags: 401 Unauthorized`,
				"c": "cannot read the dependencies of c:v1.0.0: 404 Not Found",
			},
		},
		"more than three are counted": {
			packages: "a@v1.0.0", registry: registry{"a": {"v1.0.0: b *, c *, d *, e *, f *"}, "b": {}, "c": {}, "d": {}, "e": {}, "f": {}},
			problems: map[string]string{"a": "Provider a needs b in *, and none of its 0 tags is a version in that range"},
		},
		"who skips the resolution needs nothing": {packages: "a@v1.0.0!", registry: registry{"a": {"v1.0.0: b *"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := resolve.Facts{Dependencies: tc.registry.dependencies, Tags: tc.registry.tags}
			for _, text := range strings.Fields(tc.packages) {
				p := resolve.Package{Kind: "Provider"}
				p.Source, p.Version, _ = strings.Cut(text, "@")
				if name, source, ok := strings.Cut(p.Source, "="); ok {
					p.Name, p.Source = name, source
				} else {
					p.Name = p.Source
				}
				p.Version, p.Automatic = strings.CutSuffix(p.Version, "*")
				p.Version, p.Skip = strings.CutSuffix(p.Version, "!")
				f.Packages = append(f.Packages, p)
			}
			got := resolve.Resolve(f)
			var changes, unknown []string
			for _, c := range got.Changes {
				verb := map[bool]string{true: "install ", false: "change "}[c.Package.Name == ""]
				changes = append(changes, verb+resolve.Reference{Source: c.Package.Source, Version: c.Package.Version}.String()+" for "+strings.Join(c.For, ", "))
			}
			for _, u := range got.Unknown {
				unknown = append(unknown, u.String())
			}
			problems := map[string]string{}
			for i, s := range got.Statuses {
				if s.Problem != "" {
					problems[f.Packages[i].Name] = s.Problem
				}
			}
			if tc.problems == nil {
				tc.problems = map[string]string{}
			}
			for _, diff := range []string{cmp.Diff(tc.changes, changes), cmp.Diff(tc.problems, problems), cmp.Diff(tc.unlisted, got.Unlisted), cmp.Diff(tc.unknown, unknown)} {
				if diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestASearchIsBounded: each of many packages has many versions, and the last one contradicts all.
func TestASearchIsBounded(t *testing.T) {
	g := registry{"z": {"v1.0.0"}}
	var needs []string
	for _, c := range "bcdefghijklmnopqrst" {
		source := string(c)
		needs = append(needs, source+" *")
		for _, minor := range "0123456789" {
			g[source] = append(g[source], "v1."+string(minor)+".0: z >=1")
		}
	}
	g["a"] = []string{"v1.0.0: " + strings.Join(needs, ", ") + ", z <1, z *"}
	g["z"] = []string{"v0.1.0", "v1.0.0"}
	got := resolve.Resolve(resolve.Facts{Packages: []resolve.Package{{Kind: "Provider", Name: "a", Source: "a", Version: "v1.0.0"}}, Dependencies: g.dependencies, Tags: g.tags})
	if len(got.Changes) != 0 || !strings.Contains(got.Statuses[0].Problem, "z") {
		t.Errorf("got %+v", got)
	}
}
