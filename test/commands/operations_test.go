package commands

import "testing"

// intervals are the commands of espalier top that take their time.
type intervals struct{ short, long, ofKind *command }

// startIntervals starts them; finish waits for their ends.
func startIntervals(t *testing.T, s *shell) intervals {
	p := page(t, "docs/operations.md")
	return intervals{
		short:  s.start(t, p, "espalier top --interval 10s"),
		long:   s.start(t, p, "espalier top --interval 30s"),
		ofKind: s.start(t, s.help(t, "top"), "espalier top webapp --interval 30s"),
	}
}

const columns = "KIND READY RECONCILES ERRORS REQUESTS TIME P50 P99 QUEUE OLDEST"

func (i intervals) finish(t *testing.T) {
	i.short.wait(t, done, "In 10s:", columns)
	i.long.wait(t, done, "In 30s:", columns, "WebApp.kro.run")
	i.ofKind.wait(t, done, "In 30s:", columns, "WebApp.kro.run")
}

// operations runs the commands of docs/operations.md.
func operations(t *testing.T, s *shell) {
	p := page(t, "docs/operations.md")
	s.run(t, p, "espalier top", done, "Since the program began,", columns, "WebApp.kro.run", "Slowest functions:")
	s.run(t, p, "espalier top -o json | jq '.kinds[] | select(.waiting > 100)'", done, `"kinds": [`)
	for _, line := range []string{"espalier top webapp --watch", "espalier top --watch --sort requests"} {
		of := p
		if line != "espalier top webapp --watch" {
			of = s.help(t, "top")
		}
		c := s.start(t, of, line)
		c.await(t, "Since the program began,")
		c.await(t, "In 2s:")
		c.interrupt()
		c.wait(t, done, "WebApp.kro.run")
	}

	s.run(t, p, "espalier gather -o incident.tar.gz", done, "objects to incident.tar.gz")
	s.run(t, p, "espalier why webapp/shop -n team-a --from incident.tar.gz", done, "WebApp team-a/shop is ready", "Revision 3 of ResourceGraphDefinition webapp")
	s.run(t, p, "espalier tree webapp -n team-a --from incident.tar.gz", done, "WebApp team-a cart True", "WebApp team-a search True", "WebApp team-a shop True")
	s.run(t, s.help(t, "gather"), "espalier why webapp/shop --from incident.tar.gz", notReady, "Deployment default/web: Rejected", "field is immutable")
	s.run(t, s.help(t, "gather"), "espalier gather -n team-a -n team-b -o incident.tar.gz", done)
	s.do(t, "espalier tree webapp -A --from incident.tar.gz | tee trees && grep -q team-b trees && ! grep -q prod trees")
	s.do(t, "espalier schema webapp > schema.json 2> notes && grep -q WebApp schema.json && test ! -s notes")
	s.do(t, "echo 'kind: WebApp' > broken.yaml && espalier schema webapp -f broken.yaml > schema.json 2> notes && grep -q WebApp schema.json && grep -q 'the files have errors' notes")
}

// checks runs espalier doctor where nothing is wrong.
func checks(t *testing.T, s *shell) {
	p := page(t, "docs/operations.md")
	// The one warning is that neither a Deployment nor a lease of the controllers exists.
	s.run(t, p, "espalier doctor", done, "SEVERITY CHECK OBJECT FINDING", "warning controllers -", "ok crds - all are established", "ok deletions -", "run espalier up or espalier run: the cluster has no nodes")
	s.run(t, s.help(t, "doctor"), `espalier doctor -o json | jq '.[] | select(.severity == "problem")'`, done, `"severity": "warning", "check": "controllers"`)
	s.run(t, s.help(t, "doctor"), "espalier doctor --serviceaccount espalier-system:espalier --strict", notReady, "problem rights ServiceAccount espalier-system/espalier", "the controllers lack:")
}
