package watch

import (
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// relist ends the watch of ConfigMaps, so that they are listed again.
func (s *scriptedHub) relist() {
	synctest.Wait()
	s.RecheckAccess(schema.GroupResource{Resource: configMap.Kind})
	synctest.Wait()
}

// A list that already has the answer of a write in flight, or comes while its store has the answer, does not show what
// other clients wrote before: the writer may have decided without that.
func TestAListDuringAWriteHidesNoChange(t *testing.T) {
	for name, answerFirst := range map[string]bool{"the list comes before the answer": false, "the answer comes before the list": true} {
		t.Run(name, func(t *testing.T) {
			maps := newScript(made(configMap, "a/x", 7, partOf, "o"))
			withScriptedHub(t, scripts{configMap: maps}, func(t *testing.T, s *scriptedHub) {
				s.commit("writer", ChildrenOf(configMap, "o"))
				synctest.Wait()
				s.recorder.take()
				maps.write(made(configMap, "a/x", 0, partOf, "o", "changed", "by another client"))
				own := maps.write(made(configMap, "a/x", 0, partOf, "o"))
				if answerFirst {
					s.Record(own, subscriberOf("writer"))
				}
				s.relist()
				s.expect(t, "a list during the write", "writer: Updated ConfigMap a/x")
				if !answerFirst {
					s.Record(own, subscriberOf("writer"))
				}
				s.expect(t, "the end of the write")
			})
		})
	}
}
