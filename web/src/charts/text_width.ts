let letters: CanvasRenderingContext2D | null | undefined;
let family = "";

/** Returns the width of a text in the page's type, in pixels. */
export function textWidth(text: string, size: number): number {
  if (letters === undefined) {
    letters = document.createElement("canvas").getContext("2d");
    family = getComputedStyle(document.body).fontFamily;
  }
  if (!letters) return text.length * size * 0.6;
  letters.font = `${size}px ${family}`;
  return letters.measureText(text).width;
}
