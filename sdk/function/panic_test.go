package function

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func TestNeitherTheErrorNorTheLogHasTheValueOfAPanic(t *testing.T) {
	log, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	stderr := os.Stderr
	os.Stderr = log
	s := service{run: func(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
		panic(errors.New("cannot use hunter2"))
	}}
	_, err = s.RunFunction(t.Context(), nil)
	os.Stderr = stderr
	written, readErr := os.ReadFile(log.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	for name, text := range map[string]string{"error": err.Error(), "log": string(written)} {
		if !strings.Contains(text, "the function failed with a panic with a *errors.errorString") || strings.Contains(text, "hunter2") {
			t.Errorf("the %s is %s", name, text)
		}
	}
}
