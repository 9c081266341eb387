package revision_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	v1 "github.com/espalier-dev/espalier/api/pkg/v1"
	"github.com/espalier-dev/espalier/internal/composition/packages/revision"
	"github.com/espalier-dev/espalier/internal/object"
)

var now = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func digest(c string) string { return "sha256:" + strings.Repeat(c, 64) }

func name(c string) string { return "f-" + strings.Repeat(c, 12) }

const image = "registry.example.org/org/f:v"

// ready is a revision that took over a minute ago.
func ready(c string, number int64, active bool) revision.Revision {
	return revision.Revision{Name: name(c), Image: image + c, Number: number, Active: active, Ready: active, Since: now.Add(-time.Minute)}
}

func TestRevisionsOfAPackage(t *testing.T) {
	old, current := ready("a", 1, true), ready("b", 2, true)
	starting := current
	starting.Ready = false
	fresh := current
	fresh.Since = now.Add(-10 * time.Second)
	broken := old
	broken.Ready = false
	cases := map[string]struct {
		image  string // the letter of it
		digest string
		policy v1.ActivationPolicy
		pull   corev1.PullPolicy
		limit  int64
		have   []revision.Revision
		want   string
		steps  []string
		needs  bool
		after  time.Duration
	}{
		"a new package asks the registry": {image: "a", needs: true},
		"a new package gets a revision":   {image: "a", digest: digest("a"), want: name("a"), steps: []string{"Create " + name("a") + " 1 active"}},
		"Manual leaves the activation to the user": {
			image: "a", digest: digest("a"), policy: v1.ActivationManual, want: name("a"), steps: []string{"Create " + name("a") + " 1 inactive"},
		},
		"an installed image needs no registry": {image: "a", have: []revision.Revision{old}, want: name("a")},
		"Always asks in any case, and keeps what is installed meanwhile": {
			image: "a", pull: corev1.PullAlways, have: []revision.Revision{old}, want: name("a"), needs: true,
		},
		"a tag that has moved": {
			image: "a", pull: corev1.PullAlways, digest: digest("c"), have: []revision.Revision{old}, want: name("c"),
			steps: []string{"Create " + name("c") + " 2 active"},
		},
		"an upgrade leaves the old revision active": {
			image: "b", digest: digest("b"), have: []revision.Revision{old}, want: name("b"), steps: []string{"Create " + name("b") + " 2 active"},
		},
		"until the new one is ready":                {image: "b", have: []revision.Revision{old, starting}, want: name("b")},
		"and has been for a while":                  {image: "b", have: []revision.Revision{old, fresh}, want: name("b"), after: 20 * time.Second},
		"what serves nobody needs no time to drain": {image: "b", have: []revision.Revision{broken, fresh}, want: name("b"), steps: []string{"Update " + name("a") + " 1 inactive"}},
		"then the old one becomes inactive":         {image: "b", have: []revision.Revision{old, current}, want: name("b"), steps: []string{"Update " + name("a") + " 1 inactive"}},
		"a rollback takes the revision that exists": {
			image: "a", have: []revision.Revision{ready("a", 1, false), current}, want: name("a"), steps: []string{"Update " + name("a") + " 3 active"},
		},
		"another tag of the same content is the same revision": {
			image: "z", digest: digest("a"), have: []revision.Revision{old}, want: name("a"), steps: []string{"Update " + name("a") + " 1 active"},
		},
		"a user's rollback with Manual stays": {
			image: "b", policy: v1.ActivationManual, have: []revision.Revision{old, ready("b", 2, false)}, want: name("b"),
		},
		"a revision that Crossplane has named otherwise is taken over": {
			image: "a", have: []revision.Revision{{Name: "f-other", Image: image + "a", Number: 4, Active: true, Ready: true, Since: now}}, want: "f-other",
		},
		"the oldest inactive revisions beyond the limit are deleted, oldest first": {
			image: "d", limit: 1, have: []revision.Revision{ready("a", 1, false), ready("b", 2, false), ready("c", 3, false), ready("d", 4, true)}, want: name("d"),
			steps: []string{"Delete " + name("a") + " 1 inactive", "Delete " + name("b") + " 2 inactive"},
		},
		"0 keeps all": {image: "c", limit: 0, have: []revision.Revision{ready("a", 1, false), ready("b", 2, false), ready("c", 3, true)}, want: name("c")},
		"two with the same number": {
			image: "a", have: []revision.Revision{ready("a", 2, true), ready("b", 2, false)}, want: name("a"), steps: []string{"Update " + name("a") + " 3 active"},
		},
	}
	for title, tc := range cases {
		t.Run(title, func(t *testing.T) {
			policy := tc.policy
			if policy == "" {
				policy = v1.ActivationAutomatic
			}
			p := revision.Compute(revision.Facts{Name: "f", Image: image + tc.image, Digest: tc.digest, Policy: policy, PullPolicy: tc.pull, HistoryLimit: tc.limit, Revisions: tc.have}, now)
			var steps []string
			for _, s := range p.Steps {
				state := map[bool]string{true: " active", false: " inactive"}[s.Revision.Active]
				steps = append(steps, string(s.Action)+" "+s.Revision.Name+" "+string(rune('0'+s.Revision.Number))+state)
			}
			if diff := cmp.Diff(tc.steps, steps); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if p.Current != tc.want || p.NeedsDigest != tc.needs || p.After != tc.after {
				t.Errorf("current %q, needs digest %t, after %s", p.Current, p.NeedsDigest, p.After)
			}
		})
	}
}

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, tc := range []struct{ got, want string }{
		{revision.Name("provider-x", digest("1")), "provider-x-111111111111"},
		{revision.Name(long, "22"), strings.Repeat("a", 50) + "-22"},
		{revision.PackageName("registry.example.org/org/function-x", object.Digest), "org-function-x"},
		{revision.PackageName("registry.example.org:5000/Org/a_b.c", object.Digest), "org-a-b-c"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %s, want %s", tc.got, tc.want)
		}
	}
	one := revision.PackageName("registry.example.org/"+long+"/"+long+"1", object.Digest)
	if other := revision.PackageName("registry.example.org/"+long+"/"+long+"2", object.Digest); one == other || len(one) > 63 {
		t.Errorf("two long names are %s and %s", one, other)
	}
}
