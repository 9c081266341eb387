package hook

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/response"
)

// TestPagesThatAreTooLargeTogetherAreNotRead has pages with rules of security groups, of which each one may be read.
func TestPagesThatAreTooLargeTogetherAreNotRead(t *testing.T) {
	rule := `<item><cidrIp>10.0.0.0/8</cidrIp><description>` + strings.Repeat("x", 200) + `</description></item>`
	page := func(rules int) string {
		return `<DescribeSecurityGroupsResponse><securityGroupInfo><item><groupId>sg-1</groupId><ipPermissions><item><ipProtocol>tcp</ipProtocol><ipRanges>` +
			strings.Repeat(rule, rules) + `</ipRanges></item></ipPermissions></item></securityGroupInfo><nextToken>more</nextToken></DescribeSecurityGroupsResponse>`
	}
	f, config := newFake(t, map[string][]string{"DescribeSecurityGroups": {page(5000)}})
	_, err := readSecurityGroups(context.Background(), config, []string{"sg-1", "sg-2"})
	var tooLarge *response.TooLargeError
	if !errors.As(err, &tooLarge) || tooLarge.Limit != maxResponse {
		t.Errorf("after %d pages: %v", len(f.calls), err)
	}
	if most := maxResponse/(5000*len(rule)) + 1; len(f.calls) > most {
		t.Errorf("%d pages are read, more than %d", len(f.calls), most)
	}
}
