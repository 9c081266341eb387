package function_test

import (
	"context"
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/sdk/function"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func handOn(_ context.Context, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return function.To(request), nil
}

func TestAResponseStartsFromTheRequest(t *testing.T) {
	got := function.To(&fnv1.RunFunctionRequest{
		Meta:    &fnv1.RequestMeta{Tag: "tag"},
		Desired: &fnv1.State{Resources: map[string]*fnv1.Resource{"db": {}}},
	})
	if got.GetMeta().GetTag() != "tag" || got.GetDesired().GetResources()["db"] == nil {
		t.Errorf("want it handed on, got %v", got)
	}
	if function.To(&fnv1.RunFunctionRequest{}).GetDesired() == nil {
		t.Error("want a desired state to add to")
	}
}

func TestArguments(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	cases := map[string]struct {
		arguments []string
		want      string // of the error; "" for none
		out       string
	}{
		"Without TLS if that is asked for":       {[]string{"--insecure", "--address=127.0.0.1:0", "--debug"}, "", ""},
		"With TLS otherwise, which needs a file": {[]string{"--address=127.0.0.1:0", "--tls-certs-dir=/nowhere"}, "/nowhere/tls.crt", ""},
		"An address that is none":                {[]string{"--insecure", "--address=127.0.0.1:x"}, "unknown port", ""},
		"A flag that there is not":               {[]string{"--what"}, "-what", "-tls-certs-dir"},
		"Help":                                   {[]string{"--help"}, flag.ErrHelp.Error(), "-address"},
	}
	for name, tc := range cases {
		ctx := ended
		if tc.want == "unknown port" {
			ctx = t.Context()
		}
		out := &strings.Builder{}
		err := function.Run(ctx, handOn, tc.arguments, out)
		if tc.want == "" && err != nil && !errors.Is(err, context.Canceled) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: got %v", name, err)
		}
		if !strings.Contains(out.String(), tc.out) {
			t.Errorf("%s: got %s", name, out)
		}
	}
}
