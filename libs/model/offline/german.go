package offline

import "regexp"

var german = rules(`
	# delegate
	(?:bitte|beauftrage|frage?|lasse?|weise) (?:den |die |das |einen |unseren )?(?P<agent>{lit}|[\p{L}\p{N}_-]+?)(?:[ -](?:sub|unter)?-?agent(?:en)?)?(?: an)?,(?: dass er)? (?P<task>.+)
	(?:lasse?|beauftrage) (?:den |die |das )?(?P<agent>{lit}|[\p{L}\p{N}_-]+?)[ -](?:sub|unter)?-?agent(?:en)?(?: mit)? (?P<task>.+)
	delegiere (?P<task>.+?) an (?:den |die |das )?(?P<agent>{lit}|[\p{L}\p{N}_-]+?)(?:[ -](?:sub|unter)?-?agent(?:en)?)?

	# recall
	was weißt du (?:noch )?(?:über|von|zu) (?P<query>.+)
	(?:erinnerst du dich(?: noch)?(?: an)?|weißt du noch),? (?P<query>.+)
	(?:suche?|schau)(?: nach)? (?P<query>.+?) (?:in|im) (?:deinem |dem |meinem )?(?:gedächtnis|speicher)(?: nach)?
	(?:durchsuche) (?:dein|das|mein) gedächtnis nach (?P<query>.+)

	# remember
	(?:merke?|behalte|notiere?)(?: dir)?(?: bitte)?(?:, dass |: ?|, ?| dass | )(?P<fact>.+)
	(?:vergiss nicht|denke? daran)(?:, dass |: ?|, ?| dass )(?P<fact>.+)

	# skill
	(?:verwende|nutze|benutze|lade|befolge) (?:den |die |das )?(?P<skill>{lit}|[\p{L}\p{N}_-]+?)[ -](?:skill|fähigkeit)(?:,? (?:um|und) (?P<rest>.+))?
	(?:verwende|nutze|benutze|lade) (?:den |die )?(?:skill|fähigkeit) (?P<skill>{lit}|[\p{L}\p{N}_-]+)

	# ask
	frage? (?:mich|den benutzer|den nutzer)(?: nach)?[:,]? (?P<question>.+)

	# summary
	(?:fasse?) {dpaths}(?: kurz)? zusammen

	# edit
	(?:ersetze|ändere|tausche|korrigiere)(?P<all> alle| jedes| überall)?(?: vorkommen von)?{dword} (?P<old>{lit}) (?:durch|in|zu|mit|gegen|auf){dword} (?P<new>{lit}) in {dpath}(?: aus)?
	(?:ersetze|ändere|tausche|korrigiere) in {dpath}(?P<all> alle| jedes| überall)?{dword} (?P<old>{lit}) (?:durch|in|zu|mit|gegen|auf){dword} (?P<new>{lit})(?: aus)?
	in {dpath}:? (?:ersetze|ändere|tausche)(?P<all> alle| jedes| überall)?{dword} (?P<old>{lit}) (?:durch|in|zu|mit|gegen|auf){dword} (?P<new>{lit})(?: aus)?

	# write
	(?:erstelle|erzeuge|lege|leg) (?:eine )?leere datei (?P<path>{lit})(?: an)?
	(?:erstelle|erzeuge|lege|leg|mach|schreibe?) {dpath},?(?: (?:mit|die|der|das)|:)(?: (?:dem|folgendem|diesem|den))?(?: (?:inhalt|text|worten))?:? (?P<text>.+?)(?: (?:an|enthält))?
	schreibe? in {dpath}:? {dtext}
	(?:schreibe?|speichere?|sichere|lege?) {dtext} (?:in|unter|nach|als) {dpath}(?: ab)?

	# append
	(?:hänge?|füge?|ergänze|schreibe?) {dtext} (?:ans ende von|am ende von|an das ende von) {dpath}(?: an| hinzu)?
	(?:hänge?|füge?|ergänze) {dtext} (?:an|in|zu|zur|zum) {dpath}(?: (?:an|hinzu|ein))?
	ergänze {dpath} um {dtext}

	# copy
	kopiere {dpath} (?:nach|in|als|zu) {dpath2}
	# move
	(?:verschiebe|bewege|benenne) {dpath} (?:nach|in|zu|als) {dpath2}(?: um)?
	# delete
	(?:lösche|entferne) {dpaths}(?: wieder)?

	# glob
	(?:finde|suche|liste|zeige?)(?: mir)?(?: alle)? {type}-?dateien(?: (?:in|im|unter) {ddir})?(?: auf)?
	(?:finde|suche|liste|zeige?)(?: mir)?(?: alle)?(?: dateien)?(?: (?:mit|namens|nach|zum muster))? (?P<glob>{lit})(?:[ -]?dateien)?(?: (?:in|im|unter) {ddir})?(?: auf)?

	# grep
	(?:suche?|finde)(?: nach)?{dword} (?P<query>{lit}|\S+) in (?:allen dateien|den dateien|{dpath})
	durchsuche (?:alle dateien|die dateien|{dpath}) nach{dword} (?P<query>.+)
	(?:suche?) in (?:allen dateien|den dateien|{dpath}) nach{dword} (?P<query>.+)
	welche dateien? (?:enthalten|enthält|erwähnen|nennen){dword} (?P<query>.+)

	# list
	(?:liste|zeige?|nenne)(?: mir)?(?: alle| die)* (?:dateien|inhalte?)(?: (?:in|im|aus|von|unter) {ddir})?(?: auf| an)?
	welche dateien (?:gibt es|sind|liegen|haben wir|siehst du)(?: (?:in|im|unter) {ddir})?(?: da| hier| dort)?

	# read
	(?:zeige?|lies|gib)(?: mir)?(?: bitte)? (?:die )?ersten (?P<count>\d+) zeilen (?:von|aus|der|in) {dpath}(?: vor| aus)?
	(?:lies|lese|öffne|zeige?|prüfe?|schau|sieh)(?: mir| bitte| dir)*(?: den inhalt (?:von|der))? {dpaths}(?: (?:vor|an|aus|durch|nach))?
	was steht (?:denn )?in {dpath}

	# run
	(?:führe?|starte|lasse?)(?: (?:den|das|die))?(?: (?:shell-?)?(?:befehle?|kommandos?|skript))?:? (?P<cmd>.+?)(?: in der (?:shell|sandbox))? (?:aus|laufen)
	(?:starte)(?: (?:den|das))?(?: (?:befehl|kommando|skript))?:? (?P<cmd>{lit})

	# reply
	(?:antworte|sage?)(?: nur| einfach)?(?: mit)?[:,]? (?P<text>{lit}|\p{L}+)

	# report
	(?:fasse?)(?: (?:alles|es|das|die ergebnisse|das ergebnis|kurz))* zusammen
	(?:berichte|sag mir bescheid|melde dich)(?: .*)?
	(?:sage?|zeige?|nenne) mir (?:das ergebnis|die ergebnisse|was .*|ob .*|die ausgabe)
`)

var (
	deQuestion = regexp.MustCompile(`^(?i:was|wer|wie|wo|wann|wohin|welche[rsn]?|warum|wessen|wem|hast du|habe ich|sag mir|nenne mir)\b`)
	deFiller   = regexp.MustCompile(`(?i) (?:danach|dann|anschließend|bitte|doch|mal)\b`)
	deLead     = regexp.MustCompile(`^(?i:bitte|dann|danach|anschließend|zuerst|zunächst|schließlich|zuletzt|außerdem|nun|jetzt|und|hallo|kannst du(?: bitte)?|könntest du(?: bitte)?|als nächstes)(?:[,:.]| |$)+`)
)
