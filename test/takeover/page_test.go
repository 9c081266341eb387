package takeover

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/internal/testkit"
)

const page = "../../docs/migration.md"

// pageCommands are the commands of docs/migration.md, by section, in their order.
func pageCommands(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for section := range strings.SplitSeq("\n"+string(raw), "\n## ") {
		title, text, _ := strings.Cut(section, "\n")
		for _, block := range shellBlocks.FindAllStringSubmatch(text, -1) {
			for line := range strings.Lines(block[1]) {
				out[title] = append(out[title], strings.TrimSpace(line))
			}
		}
	}
	return out
}

var shellBlocks = regexp.MustCompile("(?s)```sh\n(.*?)\n *```")

// pageRunner runs the page's commands against a cluster.
type pageRunner struct {
	kubeconfig string
	commands   map[string][]string
}

// runBefore runs the commands of a section that come before the one that runs the controllers,
// and returns the rest.
func (r pageRunner) runBefore(t *testing.T, section string) {
	t.Helper()
	for len(r.commands[section]) > 0 && !strings.HasPrefix(r.commands[section][0], "espalier run") {
		r.next(t, section)
	}
}

// runRest runs what is left of the commands of a section, and returns what the last printed.
func (r pageRunner) runRest(t *testing.T, section string) (out string) {
	t.Helper()
	for len(r.commands[section]) > 0 {
		out = r.next(t, section)
	}
	return out
}

// next runs a command. The one that runs the controllers only reports whether it would.
func (r pageRunner) next(t *testing.T, section string) string {
	t.Helper()
	line := r.commands[section][0]
	r.commands[section] = r.commands[section][1:]
	words := append(strings.Fields(line), "--kubeconfig", r.kubeconfig)
	switch words[0] {
	case "espalier":
		if words[1] == "run" {
			words = append(words, "--check")
		}
		code, out, errs := runCLI(t.Context(), words[1:]...)
		if code != 0 {
			t.Errorf("%s, %s: %s ends with %d:\n%s\n%s", page, section, line, code, out, errs)
		}
		return out
	case "kubectl":
		out, err := exec.CommandContext(t.Context(), testkit.Kubectl(t), words[1:]...).CombinedOutput()
		if err != nil {
			t.Errorf("%s, %s: %s: %v\n%s", page, section, line, err, out)
		}
		return string(out)
	}
	t.Errorf("%s, %s: unknown command %s", page, section, line)
	return ""
}

// former are the Deployments of the engines that are moved from.
const former = `
apiVersion: v1
kind: Namespace
metadata: {name: kro-system}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: crossplane, namespace: crossplane-system, labels: {app: crossplane}}
spec:
  replicas: 1
  selector: {matchLabels: {app: former}}
  template:
    metadata: {labels: {app: former}}
    spec: {containers: [{name: former, image: former}]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kro, namespace: kro-system, labels: {app.kubernetes.io/name: kro}}
spec:
  replicas: 1
  selector: {matchLabels: {app: former}}
  template:
    metadata: {labels: {app: former}}
    spec: {containers: [{name: former, image: former}]}
`
