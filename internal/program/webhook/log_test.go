package webhook

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
)

func TestAMessageIsLoggedOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := limitLog(funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
		for range 3 {
			log.Info("refused")
			log.WithValues("a", 1).Error(errors.New("no"), "cannot read")
		}
		<-time.After(logInterval) // of the bubble
		log.Info("refused")
		want := []string{
			`"level"=0 "msg"="refused"`,
			`"msg"="cannot read" "error"="no" "a"=1`,
			`"level"=0 "msg"="refused" "omitted"=2`,
		}
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Errorf("logged (-want +got):\n%s", strings.ReplaceAll(diff, "\u00a0", " "))
		}
	})
}
