package cli

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit"
)

const goingTop = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: top
  namespace: prod
  deletionTimestamp: "2026-08-01T12:00:00Z"
  finalizers: [example.com/guard]
  labels: {applyset.kubernetes.io/id: top}
`

// screenOf plays a deletion of a top with many parts on a screen.
func screenOf(t *testing.T, width, height int) deleteModel {
	t.Helper()
	w := observe.ClusterState{Root: testkit.Parse(t, goingTop)[0], Children: map[string][]*unstructured.Unstructured{}}
	for i := range 30 {
		part := &unstructured.Unstructured{}
		part.SetAPIVersion("v1")
		part.SetKind("Secret")
		part.SetName(fmt.Sprintf("part-%d", i))
		w.Children["top"] = append(w.Children["top"], part)
	}
	var m tea.Model = deleteModel{treeModel: treeModel{title: "ConfigMap prod/top"}}
	m, _ = m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m, _ = m.Update(deletionState{cluster: w, progress: observe.Progress{Removed: 10, Total: 40, Percent: 25}})
	return m.(deleteModel)
}

func TestTheScreenOfADeletion(t *testing.T) {
	t.Run("fits, and says what it has no room for", func(t *testing.T) {
		for _, height := range []int{12, 24, 40} {
			m := screenOf(t, 80, height)
			text := m.View().Content
			if n := strings.Count(text, "\n") + 1; n > height {
				t.Errorf("it has %d lines of %d:\n%s", n, height, text)
			}
			for _, says := range []string{"ConfigMap prod/top", "10 of 40 removed (25%)", "held by finalizer example.com/guard", "q to stop watching; the deletion goes on"} {
				if !strings.Contains(text, says) {
					t.Errorf("with %d lines it doesn't say %q:\n%s", height, says, text)
				}
			}
			if says := "more"; height < 40 && !strings.Contains(text, says) {
				t.Errorf("it doesn't say that there is more:\n%s", text)
			}
		}
	})
	t.Run("leaves all of it behind", func(t *testing.T) {
		if text := screenOf(t, 80, 12).last(); !strings.Contains(text, "part-29") || strings.Contains(text, "q to stop") {
			t.Errorf("it leaves\n%s", text)
		}
	})
	t.Run("is over when all is gone", func(t *testing.T) {
		m, then := screenOf(t, 80, 12).Update(deletionState{progress: observe.Progress{Removed: 40, Total: 40, Percent: 100}})
		if then == nil {
			t.Fatal("it goes on")
		}
		if _, quits := then().(tea.QuitMsg); !quits {
			t.Error("it doesn't quit")
		}
		if text := m.(deleteModel).last(); !strings.Contains(text, "40 of 40 removed (100%)") || strings.Contains(text, "part-") {
			t.Errorf("it leaves\n%s", text)
		}
	})
}
