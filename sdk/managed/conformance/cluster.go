package conformance

import (
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	binding "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/managed/operation"
)

// cluster is what survives a crash of the process: the objects of the API server, and calls to
// the external API that have not arrived yet.
type cluster struct {
	bindings map[string]storedBinding
	// deleted holds the UIDs of managed resources that do not exist any more.
	deleted map[string]bool
	delayed []delayedCall
	// name makes its random texts different from other clusters' texts.
	name   string
	random int
}

type storedBinding struct {
	spec *binding.BindingSpec
	// isReservation: the binding only reserves an assigned identity.
	isReservation bool
}

// delayedCall is a call that arrives after the process that made it has crashed.
type delayedCall struct {
	at     time.Time
	arrive func()
}

func (r *runner) newCluster() *cluster {
	r.clusters++
	return &cluster{bindings: map[string]storedBinding{}, deleted: map[string]bool{}, name: r.prefix + strconv.Itoa(r.clusters)}
}

// randomText returns a text that is unique, and the same in each run of the tests.
func (c *cluster) randomText(prefix string) string {
	c.random++
	return fmt.Sprintf("%s-%s-%d", prefix, c.name, c.random)
}

// expireBindings deletes the bindings of deleted managed resources when they expire, as the
// runtime does.
func (c *cluster) expireBindings(now time.Time) {
	remaining := map[string]bool{}
	for name, b := range c.bindings {
		if !c.deleted[string(b.spec.Owner.UID)] || b.isReservation {
			continue
		}
		remaining[string(b.spec.Owner.UID)] = true
		switch step := operation.Expire(*b.spec, metav1.NewMicroTime(now)); step.Do {
		case operation.DeleteBinding:
			delete(c.bindings, name)
			delete(remaining, string(b.spec.Owner.UID))
		case operation.UpdateBinding:
			b.spec = step.Binding
			c.bindings[name] = b
		default:
		}
	}
	for name, b := range c.bindings {
		if uid := string(b.spec.Owner.UID); b.isReservation && c.deleted[uid] && !remaining[uid] {
			delete(c.bindings, name)
		}
	}
}
