package offline

import "regexp"

// english is tried from top to bottom; the first rule whose slots make sense wins.
var english = rules(`
	# todo
	(?:make|create|write|start|set up|keep|add|update)(?: me| up| down)?(?: to| on)?(?: an?| the| my| our| your| these| this)?(?: new| short)? (?:to-?dos?|task list)(?: list| items?| entries)?(?: (?:with|for|of|containing|from|out of))?(?: (?:the |these |this |following |my )*(?:items|entries|steps|points|tasks|following))?[:,]? (?P<items>.+)
	(?:add|put) (?P<items>.+?) (?:to|on|onto) (?:the|my|your|our) (?:to-?do|task) list
	track (?:these|the following|this)(?: steps| items)? as to-?dos[:,]? (?P<items>.+)

	# plan enter
	(?:enter|start|begin|go into|switch to|switch on)(?: the)? plan(?:ning)? mode
	# plan exit
	(?:leave|exit|end|finish|quit)(?: the)? plan(?:ning)? mode
	# plan write
	(?:write|record|save|draft)(?: down)? (?:the |a |this |your |my )?plan:? (?P<text>.+)
	(?:write|record|save) (?P<text>{lit}) (?:as|into|in|to) (?:the|your|my) plan

	# delegate
	(?:ask|tell|have|let|get|instruct|use|call|launch|spawn|start|run|invoke) (?:the |our |a )?{anagent} (?:called |named )?(?P<agent>{lit}|[\p{L}\p{N}_-]+)(?: in(?: the)? background)?,?:?(?: to| for| with| on)? (?P<task>.+)
	(?:ask|tell|have|let|get|instruct|request|use|call|launch|spawn|start|run|make|invoke|want) {agent} {anagent}(?: in(?: the)? background)?,?:?(?: to| for| with| on| and have it| and ask it to| and tell it to| in order to)? (?P<task>.+)
	give {agent1}(?: {anagent})? (?:the |this )?(?:task|job|order)(?: (?:to|of))?:? (?P<task>.+)
	(?:delegate|hand|give|assign|pass|leave)(?: over)?(?: this| the following)? to {agent1}(?: {anagent})?[:,]? (?:the (?:task|job) (?:of|to) )?(?P<task>.+)
	(?:delegate|hand|give|assign|pass|leave)(?: over)?(?: the (?:task|job|work) (?:of|to))? (?P<task>.+?)(?: over)? to {agent} {anagent}
	delegate (?P<task>.+?) to {agent}
	(?:ask|tell|have|let|get|instruct) {agent1}[,:]?(?: to)?(?: please)? (?P<task>.+)
	(?:ask|tell|have|let|get|instruct) {agent},?(?: to)? (?P<task>.+)
	(?:use|call|launch|spawn|start|run|invoke) {agent1},?(?: to| for| on)?(?: (?:with|and give (?:it|them)) (?:the |this )?(?:task|job|instructions?|order))?:? (?P<task>.+)
	(?:use|call|launch|spawn|start|run|invoke) {agent},?(?: to| for| on)?(?: (?:with|and give (?:it|them)) (?:the |this )?(?:task|job|instructions?|order))?:? (?P<task>.+)
	@(?P<agent>[\p{L}\p{N}_-]+)[:,]?(?: to)? (?P<task>.+)

	# agent list
	(?:list|show)(?: me)?(?: all)?(?: the| my| your| our)?(?: available| active| running)* (?:sub-?agents|agents)
	(?:which|what) (?:sub-?agents|agents) (?:are there|do you have|are (?:available|active|running)|exist|can you use)
	# task list
	(?:list|show)(?: me)?(?: all)?(?: of)?(?: the| my| our| your)?(?: running| background| open| current)* tasks
	(?:which|what)(?: background)? tasks (?:are|do) .+
	# task output
	(?:show|get|read|fetch|print|give|check)(?: me)?(?: the)? (?:output|results?|status|state) (?:of|from|for) (?:the )?(?:background )?(?:task )?{id}
	(?:show|get|read|fetch|print|give)(?: me)? its (?:output|results?)
	# task wait
	wait (?:for|until|on) (?:the )?(?:background )?task {id}(?: (?:to|is|has) .+)?
	wait (?:for|until) (?P<id>it)(?: (?:to|is|has) .+)?
	# task cancel
	(?:cancel|stop|kill|abort|end) (?:the )?(?:background )?task {id}

	# thread list
	(?:list|show)(?: me)?(?: all)?(?: my| our| the)?(?: past| earlier| previous| recent| other)* (?:threads|conversations|sessions|chats)
	# threads
	(?:search|look|grep)(?: (?:in|through|into|inside))?(?: all)?(?: of)? (?:our |my |the |past |earlier |previous |old |other )*(?:conversations?|threads?|sessions?|chats?|chat history|history|messages)(?: (?:for|about|where we discussed|and find|and look for))? (?P<query>.+)
	(?:search for|look for|find|look up) (?P<query>.+?) in (?:our |my |the |past |earlier |previous |old |other )*(?:conversations?|threads?|sessions?|chats?|chat history|history|messages)
	(?:find|show)(?: me)? (?:the |our |all )?(?:past |earlier |previous )*(?:conversations?|threads?|messages) (?:about|where we (?:discussed|talked about|spoke about)|that mention|mentioning|with|on) (?P<query>.+)
	(?:what|when|where) did (?:we|i|you) (?:talk|speak|say|discuss|write|chat)(?: about| regarding| on)? (?P<query>.+)
	(?:did|have) (?:we|i) (?:ever |already )?(?:talk(?:ed)?|discuss(?:ed)?|mention(?:ed)?|spoken?|chat(?:ted)?)(?: about)? (?P<query>.+)

	# recall
	(?:search|check|query|consult|look)(?: (?:in|into|through|up in))? {mem}(?: (?:for|about|on|to see|whether|and tell me|to find(?: out)?))? (?P<query>.+)
	(?:search for|look for|look up|find|recall|get) (?P<query>.+?) (?:in|from) {mem}
	what do you (?:still )?(?:know|remember|recall|have)(?: in memory)? (?:about|of|on|regarding) (?P<query>.+)
	(?:do|can|did) you (?:still )?(?:remember|recall)(?: what| that| which)? (?P<query>.+)
	(?:recall|tell me what you (?:know|remember) about|remind me (?:of|about|what)) (?P<query>.+)

	# memory get
	(?:show|print|display|get|read|open|dump|list)(?: me)?(?: the)?(?: (?:contents?|content) of)? {mem}(?: file)?
	(?:show|print|display|get|read|open)(?: me)? (?:the )?(?:memory file|ledger) (?P<path>{lit})
	what is in {mem}

	# remember
	(?:remember|memori[sz]e|keep in mind|bear in mind|(?:don't|don’t|do not|never) forget|make a note|take (?:a )?note|note down|note|save (?:to|in|into) {mem}|(?:store|put|keep|record) in {mem}|add to {mem})(?: for (?:later|next time|the future))?(?:,? that |,? this: ?|: ?|,? the following: ?|, ?)(?P<fact>.+)
	(?:remember|memori[sz]e|keep in mind|bear in mind|(?:don't|don’t|do not|never) forget) (?P<fact>.+)
	(?:save|store|put|keep|add|write|record)(?: the fact)?(?: that)? (?P<fact>.+?) (?:in|to|into) {mem}(?: file)?(?: for (?:later|next time))?

	(?:save|store|keep|record|remember)(?: down)? (?:my|our|this|the|a|these|that) (?:preferences?|facts?|decisions?|settings?|details?|information)(?: that)?:? (?P<fact>.+)

	# skill
	(?:use|load|apply|follow|activate|consult|employ)(?: the| your| our| my)? {skill} skill(?:,? (?:to|for|and|when you) (?P<rest>.+))?
	(?:use|load|apply|follow|activate|consult)(?: the| your)? skill (?:called |named )?{skill}(?:,? (?:to|for|and) (?P<rest>.+))?
	(?:with|using|by using)(?: the| your)? {skill} skill,? (?P<rest>.+)

	# tool
	(?:call|use|invoke)(?: the)?(?: tool)? (?P<tool>{lit}|[\w-]+)(?: tool)?(?: (?:with|on|using)(?: the)?(?: (?:arguments?|args|input|parameters|json))?:? (?P<args>.+))?

	# fetch
	(?:fetch|open|get|download|visit|load|read|browse|show)(?: me)?(?: the)?(?: (?:page|url|site|website|web page))?(?: (?:at|from|of))? (?P<url>{lit})

	# ask
	ask (?:me|the user|us)(?: about| for| the question)?[:,]? (?P<question>.+)

	# summary
	(?:summari[sz]e|sum up|condense|give me a (?:short |brief )?summary of|outline) {paths}(?: (?:briefly|shortly|in .+|for me))?
	(?:write|save|put|store) (?:a |the )?(?:short |brief )?summary of {path} (?:to|into|in|as) {path2}
	(?:summari[sz]e|condense) {path} (?:to|into|in) {path2}
	(?:summari[sz]e|sum up|condense)(?: the| this)?(?: following)?(?: (?:text|conversation|message|messages|note|notes))?(?: (?:so far|below))?:? (?P<text>{lit})

	# edit
	(?:replace|change|swap|substitute|edit|correct|update|modify|turn|rename){all} (?P<old>{lit}|\S+) (?:with|by|to|into|for|->|→|=>)` + enWord + ` (?P<new>{lit}|\S+)(?P<all2> everywhere)?,? (?:in|inside|within|of) {path}(?P<all3> everywhere)?
	(?:in|inside|within) {path},? (?:replace|change|swap|substitute|correct|turn|update|rename){all} (?P<old>{lit}|\S+) (?:with|by|to|into|for|->|→|=>)` + enWord + ` (?P<new>{lit}|\S+)(?P<all2> everywhere)?
	(?:edit|update|modify|change|correct|fix|open) {path}(?:,|:| so that| such that| and| by|,? to)* (?:replace|replacing|change|changing|swap|swapping|turn|turning){all} (?P<old>{lit}|\S+) (?:with|by|to|into|for|->|→|=>)` + enWord + ` (?P<new>{lit}|\S+)(?P<all2> everywhere)?
	(?:edit|update|modify|change|correct|fix|in) {path}[,:]?(?: so that)? (?P<old>{lit}) (?:becomes|->|→|=>|should (?:be|become|read)|is now|reads|to) (?P<new>{lit})
	(?:replace|change|swap|correct|update|turn){all} (?P<old>{lit}) in {path} (?:with|by|to|into)` + enWord + ` (?P<new>{lit})
	(?:replace|change|swap|correct|turn){all} (?P<old>{lit}) (?:with|by|to|into|for)` + enWord + ` (?P<new>{lit})(?P<all2> everywhere)?
	use (?P<new>{lit}|\S+) instead of (?P<old>{lit}|\S+) in {path}

	# cut
	(?:remove|delete|drop|strip|cut|take out){all} (?P<old>{lit}) (?:from|in|out of) {path}

	# mkdir
	(?:create|make|add)(?: an?| the)?(?: new)?(?: empty)? (?:directory|folder)(?: called| named)? (?P<path>{lit})

	# write
	(?:create|make|touch|add|write) (?:an? |the )?(?:new )?(?:empty|blank) (?:file )?(?:called |named |at )?(?P<path>{lit})
	(?:create|make|write|add|generate|produce) {path}(?:,? (?:with|containing|contains|that (?:says|contains|reads|holds)|which (?:says|contains|reads|holds)|saying|holding|having|consisting of|and (?:write|put)(?: into it)?)|[:,])(?: (?:the |this |exactly |as |following |its )*(?:contents?|text|body|lines?|words?|sentence)(?: in it| into it)?)?:? (?P<text>.+?)(?: (?:in|inside|into|to) it)?
	(?:write|save|put|store)(?: down)? (?:the following|this|these)(?: (?:text|contents?|lines?|words?|json|data))? (?:to|into|in|as|under|at) {path}:? (?P<text>{lit})
	(?:write|save|put) (?:to|into|in) {path}:? {text}
	(?:write|save|store|put|output|record|dump|print)(?: down)? {text}(?: down)? (?:in|into|to|as|under|at|inside) {path}
	(?:in|into|inside) {path},? (?:write|put|save|record) {text}
	(?:overwrite|fill) {path} with {text}
	(?:let|make|have) {path} (?:say|contain|read) {text}

	# append
	(?:append|add|attach)(?: an?| the| another)?(?: new| short)? (?:section|paragraph|line|entry|item|note|block|heading|row)s? to (?:the end of )?{path}(?: (?:with|saying|that says|containing)(?: the)?(?: (?:content|text|words))?)?:? (?P<text>{lit})
	(?:append|add) (?:the following|this|these)(?: (?:text|contents?|lines?|words?))? to {path}:? (?P<text>{lit})
	(?:append|add|attach|write|put) {text} (?:to|at|onto) (?:the )?(?:very )?(?:end|bottom) of {path}
	(?:at|to) (?:the )?(?:end|bottom) of {path},? (?:append|add|write|put) {text}
	(?:append|add|attach) {text} (?:to|onto|in|into) {path}
	(?:append|add) to {path}:? {text}
	extend {path} (?:with|by) {text}

	# copy
	(?:copy|duplicate) {path} (?:to|into|as|onto) {path2}
	make a copy of {path} (?:named|called|at|in|as|under) {path2}
	# move
	(?:move|rename|mv) {path} (?:to|into|as|in) {path2}
	# delete
	(?:delete|remove|erase|rm|unlink|get rid of|throw away) {paths}(?: again| from .+)?

	# read all
	(?:read|open|review|check|inspect|go through|look at|load)(?: all| every| each)(?: of)?(?: the)?(?: {type})? files?(?: (?:in|under|inside|from) {dir})?
	(?:read|open|review|check|inspect|go through|look at|load)(?: all| every| each| the)?(?: of)?(?: the)?(?: files)?(?: matching| named| like)? (?P<glob>{lit})(?: files?)?

	# glob
	(?:find|list|show|get|locate|search for|look for|count)(?: me)?(?: all| every| any)?(?: of)?(?: the)? {type}[ -]files?(?: (?:in|under|inside|within) {dir})?
	(?:which|what) {type} files (?:are there|exist|do (?:we|you|i) have|are)(?: (?:in|under|inside) {dir})?(?: there| here)?
	(?:find|list|show|get|locate|search for|look for)(?: me)?(?: all| every| any)?(?: of)?(?: the)? files?(?: that)? (?:end|ending|whose names? ends?)(?: in| with|ing in|ing with) (?P<ext>{lit}|\.?\w+)(?: (?:in|under|inside) {dir})?
	(?:find|list|show|get|locate|glob|search for|look for)(?: me)?(?: all| every| any)?(?: of)?(?: the)?(?: files?)?(?: (?:matching|that match|named|called|like|with the name|for))?(?: the)?(?: (?:pattern|glob))? (?P<glob>{lit})(?: files?)?(?: (?:in|under|inside|within) {dir})?
	where is {path}
	(?:find|locate) {path}

	# grep
	(?:search|grep|scan|look)(?: for)?` + enWord + ` (?P<query>{lit}|\S+) (?:in|inside|within|across|through) {path}
	(?:search|grep|scan|look)(?: for)?` + enWord + ` (?P<query>.+?) (?:in|inside|within|across|through)(?: all| every)?(?: of)?(?: the| my| our| this)? (?:files?|workspace|code|codebase|project|documents|repository)
	(?:search|grep|scan|look)(?: (?:in|inside|through))? {path} for` + enWord + ` (?P<query>.+)
	(?:search|grep|scan|look)(?: (?:in|inside|through))?(?: all| every)?(?: of)?(?: the| my| our| this)? (?:files?|workspace|code|codebase|project|documents|repository) for` + enWord + ` (?P<query>.+)
	(?:find|list|show|count)(?: me)?(?: all| every| the)*(?: of)?(?: the)? (?:(?:occurrences?|mentions?|places?|uses?|matches)(?: of| with| for| where)?|(?:lines?|files?) (?:with|containing|mentioning|(?:that|which) (?:mention|contain|use|have))) (?P<query>{lit}|\S+)(?: (?:in|inside|within|across) (?:{path}|(?:all |the |our |my )*(?:files|workspace|code|project)))?
	(?:which|what) files? (?:contains?|mentions?|have|has|includes?|uses?|refers? to)` + enWord + ` (?P<query>.+)
	(?:find|locate)` + enWord + ` (?P<query>{lit}) in {path}
	(?:find|locate)` + enWord + ` (?P<query>{lit}) (?:in|across)(?: all| every)?(?: of)?(?: the| my| our| this)? (?:files?|workspace|code|codebase|project|documents|repository)
	(?:check|see|find out|tell me|test) (?:whether|if) {path} (?:contains?|mentions?|includes?|says|has|uses)` + enWord + ` (?P<query>{lit}|\S+)
	does {path} (?:contain|mention|include|say)` + enWord + ` (?P<query>{lit}|\S+)
	(?:search|grep|look)(?: for)?` + enWord + ` (?P<query>{lit})

	# list
	(?:list|show|display|print|enumerate|get)(?: me)?(?: all)?(?: of)?(?: the)? (?:files|contents?|entries|everything|file list|files and (?:folders|directories)|folders and files)(?:(?: that (?:are|exist))? (?:in|of|inside|under|from) {dir})?(?: here| there)?
	(?:what|which) files (?:are there|are|exist|do (?:we|you|i) have|is there|can you see)(?: (?:in|inside|under) {dir})?(?: here| there)?
	(?:list|show)(?: me)? (?:the )?(?P<dir>{lit}|workspace|current directory|current folder|working directory)(?: folder| directory)?
	(?:list|show)(?: me)? (?:the )?(?:directory|folder)(?: (?:of )?(?P<dir>{lit}|[\w-]+))?
	ls(?: (?P<dir>{lit}|[\w-]+))?
	what is in (?:the )?(?:folder|directory) (?P<dir>{lit}|[\w-]+)
	what is in (?:the )?(?P<dir>workspace|{lit}|[\w-]+)(?: folder| directory)?

	# read
	(?:read|show|print|display|quote|give)(?: me)?(?: the)? (?:first|top) (?P<count>\d+) lines? (?:of|from|in) {path}
	(?:read|show|print|display|quote|give)(?: me)?(?: the)? lines? (?P<from>\d+)(?: ?(?:-|–|to|through|until) ?(?P<to>\d+))? (?:of|from|in) {path}
	(?:read|open|show|print|display|cat|view|inspect|review|check|examine|load|look at|look into|take a look at|have a look at|go through|study|see|quote|get|consult|output)(?: me| out| up| through)?(?:(?: the)?(?: full| whole| entire| current)? (?:contents?|text) of)? {paths}(?: to me| out| aloud| carefully| again| first| now| too| as well| for me| once more)*
	what (?:is|does|do|stands)?(?: it say| written| it contain)? ?(?:in|inside) {paths}
	what (?:does|do) {paths} (?:say|contain|hold|show|look like)
	use read_file on {paths}

	# run
	(?:run|execute|start|launch|issue|type|do)(?: me)?(?: the| this| these| a)?(?: (?:following|shell|bash|terminal|command-line))*(?: (?:commands?|script|program|one-liner|line))?(?: in (?:the |a )?(?:shell|sandbox|terminal|bash|command line))?:? (?P<cmd>.+?)(?: (?:in|inside|using|with|from) (?:the |a |your )?(?:shell|sandbox|terminal|bash|command line))?(?:,? (?:with|for|within) (?:a |at most |up to )*(?:timeout|time limit)?(?: of)? ?(?P<secs>\d+) ?(?:s|secs?|seconds?))?
	(?:use|open) (?:the |a )?(?:shell|sandbox|terminal|bash)(?: to (?:run|execute)|:| and (?:run|execute)) (?P<cmd>.+)
	(?:in|inside|with) (?:the |a )?(?:shell|sandbox|terminal|bash),? (?:run|execute|do):? (?P<cmd>.+)
	(?:what (?:does|is the output of)|show(?: me)? (?:the )?output of) (?P<cmd>{lit})(?: (?:print|output|return|say|give))?

	# if works
	(?:if|when|once|as soon as) (?:it|that|this|the (?:command|run|tests?|build|check|last step)) (?:works?|worked|succeed(?:s|ed)?|pass(?:es|ed)?|(?:is|was) (?:ok|okay|fine|done|good|successful|there)|exists?)
	# if fails
	(?:if|when) (?:it|that|this|the (?:command|run|tests?|build|check|last step)) (?:fails?|failed|does not work|breaks?|(?:is|was) not (?:ok|okay|fine|there))
	(?:if not|otherwise|else)

	# reply
	(?:reply|respond|answer|say|return)(?: only| just| simply)?(?: to me)?(?: with)?(?: exactly| only| just| the words?| the text| the single word| this text)*[:,]? (?P<text>{lit}|[\p{L}\p{N}]+[.!]?)

	# report
	(?:summari[sz]e|recap|report|sum up|wrap up|conclude)(?: back)?(?: (?:to me|for me|briefly|shortly|it|that|this|everything|all|them|both|the|what|your|how|whether|in|with|on|about|when).*)?
	(?:tell|give|show|let)(?: me)?(?: know)? (?:a |the |your )?(?:short |brief |final |full )*(?:results?|summary|report|output|outcome|answer|findings|contents?|recap)(?: .*)?
	(?:tell|show|let)(?: me)?(?: know)? (?:what|whether|if|how|when|that|once|which)\b.*\b(?:it|they|you|was|were|command|output|results?|file|files|happened|printed|done|finished|ready|contains?|says?|see|find|found|changed)\b.*
	(?:tell|show) me
	(?:report back|let me know)(?: .*)?
	show (?:it|them|that)(?: to me)?

	# run
	(?:compute|calculate|count|analy[sz]e|process|measure|convert|plot|build|test|check|generate)\b.{0,80} (?:with|using|by running|via|by) (?P<cmd>{lit})
	(?P<cmd>(?:git|npm|mkdir|pip3?|python3?|cargo|curl|wget|wc|echo|chmod|sed|awk|sha256sum|go (?:test|build|vet|run|mod)) .+)
	(?P<cmd>[a-z][\w.-]*(?: .+)? --?[A-Za-z][\w=-]*(?: .+)?)
	(?P<cmd>pwd|whoami|uptime|uname|date)
`)

// questionStart marks a clause that asks for something to be known.
var questionStart = regexp.MustCompile(`^(?i:what|who|whom|whose|where|when|which|how|why|is|are|am|was|were|do|does|did|can|could|will|should|has|have|tell me|give me my|according to|what's|who's|where's|answer)\b`)

// politeness and order words say nothing about what to do.
var (
	enLead  = regexp.MustCompile(`^(?i:please|kindly|now|first(?:ly)?|second(?:ly)?|third(?:ly)?|then|next|finally|lastly|last|also|and|after that|afterwards|when done|once done|at the end|in the end|ok(?:ay)?|well|hi|hello|hey|just|so|go ahead and|(?:can|could|would|will) you(?: please)?|i(?:'d| would) like you to|i want you to|i need you to|you should|you need to|let us|let's|step \d+|start by|begin by|go and|meanwhile|in the meantime|based on (?:this|that|it)|thanks|thank you|again|to|could you please)(?:[,:.]| |$)+`)
	enTrail = regexp.MustCompile(`(?i)(?:[,.;:!。！；，]| please| for me| thanks| thank you| if you can| bitte)+$`)
)
