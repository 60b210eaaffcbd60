// The contrast of every text that is seen with what lies behind it, as WCAG 2.1 defines it; SVG text by its fill.
const channels = (text) => {
  const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
  return {r, g, b, a};
};
const luminance = ({r, g, b}) => {
  const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (channels(colour).a === 1) return colour;
  }
  return "rgb(255, 255, 255)";
};
const seen = (element) => {
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  return style.visibility === "visible" && box.width > 0 && box.height > 0;
};
const texts = [...document.querySelectorAll("body *")].filter((element) =>
  !["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName) && seen(element)
  && [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim()));
return texts.map((element) => {
  const style = getComputedStyle(element);
  const svg = element instanceof SVGElement;
  const [one, other] = [svg ? style.fill : style.color, behind(element)].map((colour) => luminance(channels(colour)));
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  return {contrast, text: element.textContent.trim().slice(0, 40), tag: element.tagName, colour: style.color};
});
