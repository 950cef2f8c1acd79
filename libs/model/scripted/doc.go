// Package scripted is a provider that answers from a YAML file of turns, with delays and errors, so that tests can say
// what a model does.
//
//	turns:
//	  - when: {user: "weather"}            # every condition must hold; none = always
//	    calls: [{name: get_weather, arguments: {city: Paris}}]
//	  - when: {tool: get_weather}
//	    text: "It is sunny."
//	  - error: {kind: rate_limited, retry_after: 2s}
//	    times: 2
//
// Each request takes the first turn whose conditions hold and that is not used up (times, default 1, "always: true" for
// any number). A request that no turn fits is a bad request that says what was asked, so that a test shows what it forgot.
package scripted
