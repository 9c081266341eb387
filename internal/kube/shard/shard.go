// Package shard decides which objects an installation of the controllers works on, where several share a cluster.
// See docs/design/0019-one-process-or-several-installations.md.
//
// Pure: it uses no client, context, file, clock or randomness.
package shard

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The flags that select a shard.
const (
	NamespacesFlag = "watch-namespaces"
	LabelsFlag     = "watch-label-selector"
)

// Selector selects the objects of an installation. The zero Selector selects all.
type Selector struct {
	// If there are namespaces, only they are selected. The excluded ones are not.
	namespaces, excluded []string
	labels               labels.Selector
}

// Parse reads the values of the flags; both may be empty. The namespaces are those to work in or, each with a leading
// exclamation mark, those to leave out. An error names the flag.
func Parse(namespaces []string, labelSelector string) (s Selector, err error) {
	for _, name := range namespaces {
		excluded, isExcluded := strings.CutPrefix(name, "!")
		if problems := content.IsDNS1123Label(excluded); len(problems) > 0 {
			return s, fmt.Errorf("--%s: %q is not a namespace: %s", NamespacesFlag, excluded, strings.Join(problems, "; "))
		}
		if isExcluded {
			s.excluded = append(s.excluded, excluded)
		} else {
			s.namespaces = append(s.namespaces, name)
		}
	}
	if len(s.namespaces) > 0 && len(s.excluded) > 0 {
		return s, fmt.Errorf("--%s: list either namespaces to work in, or namespaces to leave out as !NAMESPACE, not both", NamespacesFlag)
	}
	slices.Sort(s.namespaces)
	slices.Sort(s.excluded)
	parsed, err := labels.Parse(labelSelector)
	if err != nil {
		return s, fmt.Errorf("--%s: %w", LabelsFlag, err)
	}
	if !parsed.Empty() {
		s.labels = parsed
	}
	return s, nil
}

// All reports whether it selects all objects.
func (s Selector) All() bool { return s.String() == "" }

// InNamespace reports whether it selects objects in a namespace; an empty one stands for cluster-scoped objects, which
// belong to the installation that leaves namespaces out.
func (s Selector) InNamespace(namespace string) bool {
	if len(s.namespaces) > 0 {
		return slices.Contains(s.namespaces, namespace)
	}
	return !slices.Contains(s.excluded, namespace)
}

// Labeled reports whether it selects objects with these labels.
func (s Selector) Labeled(set map[string]string) bool {
	return s.labels == nil || s.labels.Matches(labels.Set(set))
}

// Overlaps reports whether both may select the same object. Label selectors do not overlap if they require different
// values of one label.
func (s Selector) Overlaps(other Selector) bool {
	return s.sharesNamespace(other) && !s.contradicts(other)
}

func (s Selector) sharesNamespace(other Selector) bool {
	switch {
	case len(s.namespaces) > 0:
		return slices.ContainsFunc(s.namespaces, other.InNamespace)
	case len(other.namespaces) > 0:
		return slices.ContainsFunc(other.namespaces, s.InNamespace)
	}
	return true // cluster-scoped objects, at least
}

func (s Selector) contradicts(other Selector) bool {
	if s.labels == nil || other.labels == nil {
		return false
	}
	mine, _ := s.labels.Requirements()
	theirs, _ := other.labels.Requirements()
	for _, a := range mine {
		for _, b := range theirs {
			if a.Key() == b.Key() && (excludes(a, b) || excludes(b, a)) {
				return true
			}
		}
	}
	return false
}

// excludes reports whether no value that a allows, of the label of both, satisfies b.
func excludes(a, b labels.Requirement) bool {
	switch a.Operator() {
	case selection.In, selection.Equals, selection.DoubleEquals:
		return !slices.ContainsFunc(a.ValuesUnsorted(), func(value string) bool { return b.Matches(labels.Set{a.Key(): value}) })
	case selection.Exists, selection.GreaterThan, selection.LessThan:
		return b.Operator() == selection.DoesNotExist
	case selection.NotIn, selection.NotEquals, selection.DoesNotExist: // an object without the label satisfies both
	}
	return false
}

// String is the flags that select the same; empty for all objects.
func (s Selector) String() string {
	var flags []string
	if names := s.flagOfNamespaces(); names != "" {
		flags = append(flags, "--"+NamespacesFlag+"="+names)
	}
	if s.labels != nil {
		flags = append(flags, "--"+LabelsFlag+"="+s.labels.String())
	}
	return strings.Join(flags, " ")
}

func (s Selector) flagOfNamespaces() string {
	all := slices.Clone(s.namespaces)
	for _, name := range s.excluded {
		all = append(all, "!"+name)
	}
	return strings.Join(all, ",")
}

type text struct {
	Namespaces    string `json:"namespaces,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`
}

// Encode returns the selector as text, which Decode reads.
func (s Selector) Encode() string {
	out := text{Namespaces: s.flagOfNamespaces()}
	if s.labels != nil {
		out.LabelSelector = s.labels.String()
	}
	raw, _ := json.Marshal(out) // strings can always be encoded
	return string(raw)
}

// Decode reads what Encode has written; an empty text selects all objects.
func Decode(encoded string) (Selector, error) {
	if encoded == "" {
		return Selector{}, nil
	}
	var in text
	if err := json.Unmarshal([]byte(encoded), &in); err != nil {
		return Selector{}, err
	}
	return Parse(strings.FieldsFunc(in.Namespaces, func(r rune) bool { return r == ',' }), in.LabelSelector)
}
