package definition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	rev "github.com/espalier-dev/espalier/api/revision/v1alpha1"
	"github.com/espalier-dev/espalier/api/v1alpha1"
	"github.com/espalier-dev/espalier/internal/serving/revision"
)

// revisionCache caches the decoded revisions and the hash of the definition, so a reconcile without changes is cheap:
// each deleted instance reconciles its definition.
type revisionCache struct {
	read map[types.UID]*cachedRevision
	// absent is the number of the revision that was issued last, if it no longer exists.
	absent int64
	// own is the hash of the definition with this uid and generation.
	uid        types.UID
	generation int64
	own        string
}

type cachedRevision struct {
	hash string // of its content, which never changes; "" if not computed yet
	// released says that its finalizer is removed; it stays cached until its deletion is
	// observed.
	released bool
}

func (s *revisionCache) decode(o *unstructured.Unstructured) (*rev.GraphRevision, error) {
	one, err := decodeRevision(o)
	if err != nil {
		return nil, err
	}
	if s.read[o.GetUID()] == nil {
		if s.read == nil {
			s.read = map[types.UID]*cachedRevision{}
		}
		s.read[o.GetUID()] = &cachedRevision{}
	}
	return one, nil
}

func decodeRevision(o *unstructured.Unstructured) (*rev.GraphRevision, error) {
	one := &rev.GraphRevision{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, one); err != nil {
		return nil, fmt.Errorf("decode GraphRevision %s: %w", o.GetName(), err)
	}
	return one, nil
}

func (s *revisionCache) markReleased(uid types.UID) {
	if known := s.read[uid]; known != nil {
		known.released = true
	}
}

func (s *revisionCache) isReleased(one *rev.GraphRevision) bool {
	known := s.read[one.UID]
	return known != nil && known.released
}

func (s *revisionCache) retain(revisions []*rev.GraphRevision) {
	if len(s.read) == len(revisions) {
		return
	}
	kept := make(map[types.UID]*cachedRevision, len(revisions))
	for _, one := range revisions {
		if known := s.read[one.UID]; known != nil {
			kept[one.UID] = known
		}
	}
	s.read = kept
}

func (s *revisionCache) hashOf(one *rev.GraphRevision) string {
	known := s.read[one.UID]
	if known == nil {
		return revision.Hash(&one.Spec.Snapshot.Spec)
	}
	if known.hash == "" {
		known.hash = revision.Hash(&one.Spec.Snapshot.Spec)
	}
	return known.hash
}

func (s *revisionCache) hash(definition *unstructured.Unstructured, spec *v1alpha1.DefinitionSpec) string {
	if s.own == "" || s.uid != definition.GetUID() || s.generation != definition.GetGeneration() {
		s.uid, s.generation, s.own = definition.GetUID(), definition.GetGeneration(), revision.Hash(spec)
	}
	return s.own
}
