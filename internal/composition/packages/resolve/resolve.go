// Package resolve decides which versions of which packages are installed, so that the dependencies of all packages are satisfied.
//
// All ranges of versions are solved at once. What a user has installed keeps its version, and so does a dependency whose version
// is in every range; otherwise the highest version is chosen that is. A package whose dependencies cannot be satisfied together
// with those of older packages is left out, with a message that names the packages in conflict, and affects no others.
//
// Pure: it decides from values alone.
package resolve

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Package is an installed package, or one that a user wants to install.
type Package struct {
	// Kind and Name identify it.
	APIVersion, Kind, Name string
	// Source is its image without tag and digest, and Version its tag or digest.
	Source, Version string
	// Automatic says that it was installed as a dependency: its version can be changed.
	Automatic bool
	// Skip says that its dependencies do not matter.
	Skip bool
}

// String names the package in messages.
func (p Package) String() string { return p.Kind + " " + p.Name }

// Dependency is a package that another one needs.
type Dependency struct {
	APIVersion, Kind, Source string
	// Constraint is a range of versions, or a digest.
	Constraint string
}

// Reference is a version of a package.
type Reference struct{ Source, Version string }

// String is the reference of the image.
func (r Reference) String() string {
	if isDigest(r.Version) {
		return r.Source + "@" + r.Version
	}
	return r.Source + ":" + r.Version
}

// Answer is what a registry said: known is false until it has answered, and problem is why it did not.
type Answer[T any] struct {
	Value   T
	Known   bool
	Problem string
}

// Facts are what is known of all packages.
type Facts struct {
	// Packages are all packages, the oldest first.
	Packages []Package
	// Dependencies returns the dependencies of a version of a package, and Tags all tags of a source. What is not known yet is
	// read, and brings another resolution.
	Dependencies func(Reference) Answer[[]Dependency]
	Tags         func(source string) Answer[[]string]
}

// Change is a package to install as a dependency, or whose version has to change.
type Change struct {
	// Package has the new version. Its Name is empty if it has to be installed.
	Package Package
	// For are the packages that need it.
	For []string
}

// Status is what is known of the dependencies of a package.
type Status struct {
	// Found counts the packages that it needs, also indirectly, Installed those that are installed, and Invalid those with
	// another version than it needs.
	Found, Installed, Invalid int
	// Problem is why its dependencies are not satisfied; empty if they are. Waits says that this ends without a user.
	Problem string
	Waits   bool
	// Duplicate says that an older package has the same source.
	Duplicate bool
}

// Result is what to do.
type Result struct {
	Changes []Change
	// Statuses has an entry for each package, in the order of the facts.
	Statuses []Status
	// Unknown are the versions with unknown dependencies, and Unlisted the sources with unknown tags.
	Unknown  []Reference
	Unlisted []string
}

// Resolve decides.
func Resolve(f Facts) Result {
	r := &resolution{Facts: f, bySource: map[string]int{}, problems: map[int]string{}, unknown: map[Reference]bool{}, unlisted: map[string]bool{}}
	for i, p := range f.Packages {
		if first, taken := r.bySource[p.Source]; taken {
			r.problems[i] = fmt.Sprintf("%s has the same source, %s, and is older: delete one of the two", f.Packages[first], p.Source)
			continue
		}
		r.bySource[p.Source] = i
	}
	r.solved = r.solveAll()
	out := Result{Statuses: make([]Status, len(f.Packages))}
	for _, source := range slices.Sorted(maps.Keys(r.solved.chosen)) {
		if c, ok := r.change(source); ok {
			out.Changes = append(out.Changes, c)
		}
	}
	for i := range f.Packages {
		out.Statuses[i] = r.status(i)
	}
	out.Unknown = slices.SortedFunc(maps.Keys(r.unknown), func(a, b Reference) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Version, b.Version))
	})
	out.Unlisted = slices.Sorted(maps.Keys(r.unlisted))
	return out
}

type resolution struct {
	Facts
	bySource map[string]int
	problems map[int]string // of packages, by index
	unknown  map[Reference]bool
	unlisted map[string]bool
	solved   state
}

// solveAll adds one package of a user after the other, the oldest first, and leaves out those that are in conflict.
func (r *resolution) solveAll() state {
	solved := state{chosen: map[string]choice{}, needs: map[string][]need{}}
	var accepted []int
	for i, p := range r.Packages {
		if p.Automatic || r.problems[i] != "" {
			continue
		}
		s := &search{resolution: r}
		if cycle := r.cycleThrough(p.Source); cycle != "" {
			r.problems[i] = cycle
			continue
		}
		next, ok := s.run(r.begin(append(slices.Clone(accepted), i)))
		if !ok {
			r.problems[i] = s.conflict
			continue
		}
		solved, accepted = next, append(accepted, i)
	}
	return solved
}

func (r *resolution) begin(roots []int) state {
	st := state{chosen: map[string]choice{}, needs: map[string][]need{}}
	for _, i := range roots {
		p := r.Packages[i]
		st.chosen[p.Source] = choice{version: p.Version, kind: p}
		if !p.Skip {
			st.tasks = append(st.tasks, r.needsOf(Reference{p.Source, p.Version}, p.String())...)
		}
	}
	return st
}

// needsOf returns nothing as long as the dependencies are unknown.
func (r *resolution) needsOf(ref Reference, parent string) (out []need) {
	answer := r.Dependencies(ref)
	if !answer.Known {
		r.unknown[ref] = true
	}
	for _, d := range answer.Value {
		out = append(out, need{Dependency: d, parent: parent})
	}
	return out
}

// change is what has to be done for a choice; ok is false if it is installed already, or undecided.
func (r *resolution) change(source string) (c Change, ok bool) {
	chosen := r.solved.chosen[source]
	p := chosen.kind
	if i, exists := r.bySource[source]; exists {
		p = r.Packages[i]
		if !p.Automatic || p.Version == chosen.version {
			return c, false
		}
	}
	if chosen.version == "" || !r.Dependencies(Reference{source, chosen.version}).Known {
		return c, false // its dependencies may still rule it out
	}
	p.Version = chosen.version
	c.Package = p
	for _, n := range r.solved.needs[source] {
		c.For = append(c.For, n.parent)
	}
	return c, true
}

// cycleThrough describes how installed packages need each other, if they do.
func (r *resolution) cycleThrough(source string) string {
	seen := map[string]bool{}
	var walk func(at string, path []string) string
	walk = func(at string, path []string) string {
		if len(path) > 1 && at == source {
			return "dependency cycle: " + strings.Join(path, " needs ")
		}
		i, exists := r.bySource[at]
		if !exists || seen[at] || r.Packages[i].Skip {
			return ""
		}
		seen[at] = true
		for _, d := range r.Dependencies(Reference{at, r.Packages[i].Version}).Value {
			if found := walk(d.Source, append(slices.Clone(path), d.Source)); found != "" {
				return found
			}
		}
		return ""
	}
	return walk(source, []string{source})
}

// status looks at what is installed, whatever was chosen.
func (r *resolution) status(i int) (s Status) {
	p := r.Packages[i]
	if first := r.bySource[p.Source]; first != i {
		return Status{Problem: r.problems[i], Duplicate: true}
	}
	if p.Skip {
		return s
	}
	if s.Problem = r.problems[i]; s.Problem == "" {
		s.Problem = r.cycleThrough(p.Source)
	}
	ref := Reference{p.Source, p.Version}
	answer := r.Dependencies(ref)
	switch {
	case s.Problem != "":
	case answer.Problem != "":
		s.Problem, s.Waits = fmt.Sprintf("cannot read the dependencies of %s: %s", ref, answer.Problem), true
	case !answer.Known:
		r.unknown[ref] = true
		s.Problem, s.Waits = fmt.Sprintf("the dependencies of %s are not read yet", ref), true
	}
	var missing, incompatible []string
	for _, d := range answer.Value {
		installed, exists := r.bySource[d.Source]
		switch {
		case !exists:
			missing = append(missing, fmt.Sprintf("%q (%s)%s", d.Source, d.Constraint, r.whyMissing(d)))
		case !allows(d.Constraint, r.Packages[installed].Version):
			s.Invalid++
			incompatible = append(incompatible, fmt.Sprintf("existing package %s@%s is incompatible with constraint %s", d.Source, r.Packages[installed].Version, d.Constraint))
		}
	}
	r.count(p.Source, map[string]bool{p.Source: true}, &s)
	switch {
	case s.Problem != "":
	case len(incompatible) > 0:
		s.Problem = "incompatible dependencies: " + listed(incompatible)
	case len(missing) > 0:
		s.Problem, s.Waits = "missing dependencies: "+listed(missing), true
	}
	return s
}

func (r *resolution) whyMissing(d Dependency) string {
	chosen := r.solved.chosen[d.Source].version
	if chosen == "" {
		if tags := r.Tags(d.Source); tags.Problem != "" && !isDigest(d.Constraint) {
			return ": cannot list its tags: " + tags.Problem
		}
		return ""
	}
	if answer := r.Dependencies(Reference{d.Source, chosen}); answer.Problem != "" {
		return fmt.Sprintf(": cannot read %s: %s", Reference{d.Source, chosen}, answer.Problem)
	}
	return ""
}

func (r *resolution) count(source string, seen map[string]bool, s *Status) {
	i, exists := r.bySource[source]
	if !exists {
		return
	}
	for _, d := range r.Dependencies(Reference{source, r.Packages[i].Version}).Value {
		if seen[d.Source] {
			continue
		}
		seen[d.Source] = true
		s.Found++
		if _, installed := r.bySource[d.Source]; installed {
			s.Installed++
		}
		r.count(d.Source, seen, s)
	}
}

// listed names three and counts the rest.
func listed(all []string) string {
	const named = 3
	if len(all) > named {
		return fmt.Sprintf("%s, and %d more", strings.Join(all[:named], ", "), len(all)-named)
	}
	return strings.Join(all, ", ")
}
