// Package revision decides which revisions a package has, and which of them are active.
//
// A revision is named for the content of its package, the digest of the image, so going back to an earlier image activates the
// revision that exists. An image that has a revision needs no registry. A new revision is active beside the old one until it
// has taken over: only then, and after Drain, does the old one become inactive.
//
// Pure: it decides from values alone.
package revision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
)

// Drain is how long the old revision runs after the new one has taken over: calls in flight end, and clients resolve the name of
// the Service again.
const Drain = 30 * time.Second

// Name is the name of the revision of a package with a digest: sha256: and hexadecimal digits, or those alone.
func Name(pkg, digest string) string {
	digest = strings.TrimPrefix(digest, "sha256:")
	return label(pkg[:min(len(pkg), 50)] + "-" + digest[:min(len(digest), 12)])
}

// label makes a text a DNS label as Crossplane does, so names of revisions are the same.
func label(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case r == '-', r == '.', r == '/', r == ':', r == '_', r == ' ':
			b.WriteByte('-')
		}
		if b.Len() == 63 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}

// PackageName is the name of a package that is installed as a dependency: its path in the registry. Crossplane truncates a long
// one, and so may give one name to two packages.
func PackageName(source string, digest func(any) string) string {
	_, path, _ := strings.Cut(source, "/")
	name := label(path)
	if len(path) > 63 {
		name = strings.Trim(name[:52], "-") + "-" + digest(path)[:10]
	}
	return name
}

// Facts are what is known of a package.
type Facts struct {
	Name string
	// Image is the reference in the package's spec.
	Image        string
	Policy       v1.ActivationPolicy
	HistoryLimit int64
	PullPolicy   corev1.PullPolicy
	// Digest is the digest that the image has in its registry now; empty while that is unknown.
	Digest    string
	Revisions []Revision
}

// Revision is a revision of the package.
type Revision struct {
	Name   string
	Image  string
	Number int64
	Active bool
	// Ready says that its objects are installed, and that it is what is served and called, since then.
	Ready bool
	Since time.Time
}

// Action is what to do with a revision.
type Action string

// The actions.
const (
	// Create creates a revision.
	Create Action = "Create"
	// Update sets the number, the image and the state of a revision to the values of the step.
	Update Action = "Update"
	// Delete deletes a revision.
	Delete Action = "Delete"
)

// Step is one write.
type Step struct {
	Action Action
	// Revision is the revision as it has to be.
	Revision Revision
	// Reason is for events.
	Reason string
}

// Plan is what to do now.
type Plan struct {
	// Current is the name of the newest revision, active or not; empty until the digest of the image is known.
	Current string
	// NeedsDigest says that the registry has to be asked for the digest of the image.
	NeedsDigest bool
	// Steps can be carried out in this order. After a crash, what is left of them is computed again.
	Steps []Step
	// After is when the plan changes by itself; 0 for never.
	After time.Duration
}

// Compute plans. The digest is needed for an image without a revision, and with the policy Always each time.
func Compute(f Facts, now time.Time) Plan {
	all := slices.SortedFunc(slices.Values(f.Revisions), func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), cmp.Compare(a.Name, b.Name))
	})
	current, exists := find(f, all)
	if !exists {
		if f.Digest == "" {
			return Plan{NeedsDigest: true}
		}
		current = Revision{Name: Name(f.Name, f.Digest)}
	}
	p := Plan{Current: current.Name, NeedsDigest: f.PullPolicy == corev1.PullAlways && f.Digest == ""}
	want := current
	want.Image = f.Image
	if highest := highestNumber(all); !exists || current.Number < highest || len(all) > 1 && all[1].Number == current.Number {
		want.Number = highest + 1
	}
	want.Active = current.Active || f.Policy != v1.ActivationManual
	switch {
	case !exists:
		p.Steps = append(p.Steps, Step{Create, want, fmt.Sprintf("created revision %s for %s", want.Name, f.Image)})
	case want.Number != current.Number, want.Image != current.Image, want.Active != current.Active:
		p.Steps = append(p.Steps, Step{Update, want, fmt.Sprintf("the revision of %s is %s", f.Image, want.Name)})
	}
	p.retire(f, all, want, now)
	return p
}

// find returns the revision of the image: the one with its digest or, unless the registry has to be asked, the newest one for the
// same reference, which another package manager may have named differently.
func find(f Facts, newestFirst []Revision) (Revision, bool) {
	if f.Digest != "" {
		if i := slices.IndexFunc(newestFirst, func(r Revision) bool { return r.Name == Name(f.Name, f.Digest) }); i >= 0 {
			return newestFirst[i], true
		}
	}
	i := slices.IndexFunc(newestFirst, func(r Revision) bool { return r.Image == f.Image })
	if i < 0 || f.PullPolicy == corev1.PullAlways && f.Digest != "" {
		return Revision{}, false
	}
	return newestFirst[i], true
}

func highestNumber(all []Revision) (n int64) {
	for _, r := range all {
		n = max(n, r.Number)
	}
	return n
}

// retire makes the other revisions inactive once the current one has taken over, and deletes the oldest inactive ones beyond the
// limit. With the policy Manual, a user may have gone back to an older one, which stays active as long as the newest is not.
func (p *Plan) retire(f Facts, all []Revision, current Revision, now time.Time) {
	others := slices.DeleteFunc(slices.Clone(all), func(r Revision) bool { return r.Name == current.Name })
	var inactive []Revision
	for _, r := range others {
		if !r.Active {
			inactive = append(inactive, r)
			continue
		}
		if !current.Active || !current.Ready {
			continue
		}
		if left := current.Since.Add(Drain).Sub(now); left > 0 && r.Ready {
			p.After = left
			continue
		}
		r.Active = false
		p.Steps = append(p.Steps, Step{Update, r, "revision " + current.Name + " has taken over"})
	}
	if f.HistoryLimit > 0 && int64(len(inactive)) > f.HistoryLimit {
		for _, r := range slices.Backward(inactive[f.HistoryLimit:]) {
			p.Steps = append(p.Steps, Step{Delete, r, fmt.Sprintf("more than %d inactive revisions", f.HistoryLimit)})
		}
	}
}
