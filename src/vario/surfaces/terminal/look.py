"""How the screens look: the terminal's own colours and background, lines instead of boxes, room before ornament."""

CSS = """
Screen { background: ansi_default; color: ansi_default; layout: vertical; }
Words { width: 100%; height: auto; text-wrap: nowrap; text-overflow: clip; background: ansi_default; color: ansi_default; }
#head, #keys, #latest { height: 1; }
#body { height: 1fr; layout: horizontal; }
#right { width: 1fr; height: 100%; }
.pane { height: auto; }
.pane .title { height: 1; }
.pane:focus-within .title { text-style: bold reverse; }

#runs-pane { height: 100%; border-right: solid ansi_bright_black; }
#runs { height: 1fr; }
.stacked #body { layout: vertical; }
.stacked #runs-pane { border-right: none; }
#detail-pane, #detail { height: 1fr; }

VerticalScroll, OptionList {
    scrollbar-size-vertical: 1; scrollbar-size-horizontal: 0; scrollbar-gutter: stable; background: ansi_default; color: ansi_default;
    scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default;
    scrollbar-color-hover: ansi_bright_black; scrollbar-background-hover: ansi_default;
    scrollbar-color-active: ansi_bright_black; scrollbar-background-active: ansi_default;
}
OptionList, OptionList:focus { text-wrap: nowrap; text-overflow: clip; border: none; padding: 0; background: ansi_default; background-tint: ansi_default 0%; }
OptionList > .option-list--option { padding: 0; }
OptionList > .option-list--option-highlighted, OptionList:focus > .option-list--option-highlighted {
    background: ansi_default; color: ansi_default; text-style: none;
}
OptionList > .option-list--option-disabled { color: ansi_default; }
OptionList > .option-list--option-hover { background: ansi_default; }

#ask { height: 1; display: none; layout: horizontal; }
#ask Words { width: auto; }
#ask Input, #ask Input:focus {
    width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; color: ansi_default;
    background-tint: ansi_default 0%;
}
#ask Input > .input--cursor { background: ansi_default; color: ansi_default; text-style: bold underline; }
#sheet { height: 1fr; }
"""
