package cloudcontrol

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

func TestATooLargeResponseIsReadInHalves(t *testing.T) {
	failed := errors.New("failed")
	cases := map[string]struct {
		// sizes are those of resources 0, 1, …; a response has at most ten.
		sizes []int
		fails int
		want  []string
		calls []int
		err   error
	}{
		"what fits is read at once": {[]int{3, 3, 3}, -1, []string{"0", "1", "2"}, []int{3}, nil},
		"two halves":                {[]int{5, 5, 5, 5}, -1, []string{"0", "1", "2", "3"}, []int{4, 2, 2}, nil},
		"an odd number":             {[]int{5, 5, 5}, -1, []string{"0", "1", "2"}, []int{3, 2, 1}, nil},
		"one that is too large is left out, and no other one": {[]int{1, 11, 1, 1}, -1, []string{"0", "2", "3"}, []int{4, 2, 1, 1, 2}, nil},
		"one alone that is too large":                         {[]int{11}, -1, nil, []int{1}, nil},
		"another error is returned":                           {[]int{5, 5, 5, 5}, 3, nil, []int{4, 2, 2}, failed},
		"nothing":                                             {nil, -1, nil, []int{0}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var identifiers []string
			for i := range tc.sizes {
				identifiers = append(identifiers, fmt.Sprint(i))
			}
			var calls []int
			found, err := inHalves(identifiers, func(some []string) (map[string]map[string]any, error) {
				calls = append(calls, len(some))
				size, out := 0, map[string]map[string]any{}
				for i := range tc.sizes {
					if slices.Contains(some, fmt.Sprint(i)) {
						size, out[fmt.Sprint(i)] = size+tc.sizes[i], map[string]any{}
					}
				}
				switch {
				case size > 10:
					return nil, fmt.Errorf("decode: %w", &response.TooLargeError{Limit: 10})
				case slices.Contains(some, fmt.Sprint(tc.fails)):
					return nil, failed
				}
				return out, nil
			})
			var got []string
			for _, id := range identifiers {
				if found[id] != nil {
					got = append(got, id)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || !errors.Is(err, tc.err) {
				t.Errorf("found %v, %v", got, err)
			}
			if diff := cmp.Diff(tc.calls, calls); diff != "" {
				t.Error(diff)
			}
		})
	}
}
