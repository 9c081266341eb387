package resolve

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/Masterminds/semver/v3"
)

// need is a dependency with the package that has it.
type need struct {
	Dependency
	parent string
}

type choice struct {
	// version is empty while the tags are unknown.
	version string
	kind    Package
}

// state is a partial solution: the chosen version of each source, what is needed of it, and what is left to satisfy.
type state struct {
	chosen map[string]choice
	needs  map[string][]need
	tasks  []need
}

// maxSteps bounds one search, also if every range contradicts every other one.
const maxSteps = 5000

// search tries versions until all needs are satisfied. It goes back to an earlier choice if a later need contradicts that.
type search struct {
	*resolution
	steps int
	// conflict is the first contradiction, which comes from the preferred versions.
	conflict string
}

func (s *search) run(st state) (state, bool) {
	for len(st.tasks) > 0 {
		if s.steps++; s.steps > maxSteps {
			return st, s.contradict(fmt.Sprintf("no versions that satisfy all packages were found within %d steps", maxSteps))
		}
		n := st.tasks[0]
		st.tasks = st.tasks[1:]
		st.needs = maps.Clone(st.needs)
		st.needs[n.Source] = append(slices.Clone(st.needs[n.Source]), n)
		chosen, decided := st.chosen[n.Source]
		if !decided {
			return s.branch(st, n)
		}
		if chosen.version != "" && !allows(n.Constraint, chosen.version) {
			return st, s.contradict(s.describe(n.Source, chosen.version, st.needs[n.Source]))
		}
	}
	return st, true
}

// branch tries the candidates for a source, the preferred one first.
func (s *search) branch(st state, n need) (state, bool) {
	candidates, problem := s.candidates(n)
	if problem != "" {
		return st, s.contradict(problem)
	}
	for _, version := range candidates {
		next := st
		next.chosen = maps.Clone(st.chosen)
		next.chosen[n.Source] = choice{version: version, kind: Package{APIVersion: n.APIVersion, Kind: n.Kind, Source: n.Source}}
		if version != "" {
			ref := Reference{n.Source, version}
			next.tasks = slices.Concat(st.tasks, s.needsOf(ref, ref.String()))
		}
		if solved, ok := s.run(next); ok {
			return solved, true
		}
		if s.steps > maxSteps {
			break
		}
	}
	return st, false
}

// contradict remembers the first contradiction, and returns false.
func (s *search) contradict(text string) bool {
	if s.conflict == "" {
		s.conflict = text
	}
	return false
}

// candidates are the versions of a source that satisfy a need, the preferred one first; one empty version while they are unknown.
func (s *search) candidates(n need) (versions []string, problem string) {
	i, installed := s.bySource[n.Source]
	if installed && !s.Packages[i].Automatic {
		if v := s.Packages[i].Version; !allows(n.Constraint, v) {
			return nil, s.describe(n.Source, v, []need{n})
		}
		return []string{s.Packages[i].Version}, ""
	}
	if isDigest(n.Constraint) {
		return []string{n.Constraint}, ""
	}
	accepts, err := semver.NewConstraint(n.Constraint)
	if err != nil {
		return nil, fmt.Sprintf("%s needs %s in the version %q, which is neither a range of versions nor a digest", n.parent, n.Source, n.Constraint)
	}
	if installed && allows(n.Constraint, s.Packages[i].Version) {
		versions = append(versions, s.Packages[i].Version)
	}
	tags := s.Tags(n.Source)
	switch {
	case !tags.Known && len(versions) > 0:
		return versions, ""
	case !tags.Known:
		s.unlisted[n.Source] = true
		return []string{""}, ""
	}
	for _, v := range slices.Backward(sorted(tags.Value)) {
		if accepts.Check(v) && !slices.Contains(versions, v.Original()) {
			versions = append(versions, v.Original())
		}
	}
	if len(versions) == 0 {
		return nil, fmt.Sprintf("%s needs %s in %s, and none of its %d tags is a version in that range", n.parent, n.Source, n.Constraint, len(tags.Value))
	}
	return versions, ""
}

// describe names all packages that need a source, with their ranges.
func (s *search) describe(source, version string, needs []need) string {
	var parents []string
	for _, n := range needs {
		parents = append(parents, fmt.Sprintf("%s needs %s", n.parent, n.Constraint))
	}
	slices.Sort(parents)
	text := strings.Join(slices.Compact(parents), ", ")
	if i, installed := s.bySource[source]; installed && !s.Packages[i].Automatic {
		return fmt.Sprintf("incompatible dependencies: %s has version %s of %s: %s", s.Packages[i], version, source, text)
	}
	return fmt.Sprintf("incompatible dependencies: no version of %s satisfies all: %s", source, text)
}

// sorted returns the tags that are versions as Crossplane understands them: three numbers, with or without a v before.
func sorted(tags []string) (out []*semver.Version) {
	for _, tag := range tags {
		if v, ok := parse(tag); ok {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, (*semver.Version).Compare)
	return out
}

func parse(tag string) (*semver.Version, bool) {
	v, err := semver.StrictNewVersion(strings.TrimPrefix(tag, "v"))
	if err != nil {
		return nil, false
	}
	if strings.HasPrefix(tag, "v") {
		v, err = semver.NewVersion(tag) // with the v in Original
	}
	return v, err == nil
}

// allows reports whether a version, or a digest, is what a constraint asks for. Prereleases are only in ranges that name one.
func allows(constraint, version string) bool {
	if isDigest(constraint) || isDigest(version) {
		return constraint == version
	}
	accepts, err := semver.NewConstraint(constraint)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && accepts.Check(v)
}

func isDigest(version string) bool { return strings.HasPrefix(version, "sha256:") }
